-- Records that were not accepted because people switched their timeline off.
ALTER TABLE ledger ADD COLUMN declined bigint NOT NULL DEFAULT 0;
