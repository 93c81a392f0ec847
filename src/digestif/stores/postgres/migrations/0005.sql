-- While the store is being moved into another: since when, and the id of the move.
ALTER TABLE namespace ADD COLUMN moving bytea;
