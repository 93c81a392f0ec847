-- Nothing changes: this number is taken.
SELECT 1;
