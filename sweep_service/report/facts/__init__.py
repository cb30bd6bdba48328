"""What every part of the report starts from: the rows of the store, checked and summed up once."""
