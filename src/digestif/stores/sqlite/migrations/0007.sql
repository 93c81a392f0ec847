-- Records that damage from outside took.
ALTER TABLE namespace ADD COLUMN lost INTEGER NOT NULL DEFAULT 0;
