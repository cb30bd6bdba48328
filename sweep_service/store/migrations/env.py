"""Alembic's entry point: runs the migrations on the connection that `store.database.upgrade` hands over."""

from alembic import context

from sweep_service.store.tables import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, transactional_ddl=False)
context.run_migrations()
