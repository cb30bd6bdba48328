"""The facts from which every part of the report starts: the rows of the store, checked and summed up once."""
