-- Records that were not accepted because people switched their timeline off.
ALTER TABLE namespace ADD COLUMN declined INTEGER NOT NULL DEFAULT 0;
