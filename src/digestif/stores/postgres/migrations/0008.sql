-- Records that damage from outside took.
ALTER TABLE ledger ADD COLUMN lost bigint NOT NULL DEFAULT 0;
