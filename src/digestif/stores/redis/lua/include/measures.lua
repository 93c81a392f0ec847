-- What batches and slots are measured by.
local NEVER = 2 ^ 54 -- the expiry of a record that does not expire
local SMALL = 256 -- records: a batch that has no more, and none that is heavy, is simply looked through
local LIGHT = 8192 -- bytes
local SHIFT = 2e15 -- makes every time positive
-- The first byte of a slot to which a record can be added without changing it.
local JOINS = 106 -- 'j': its pending batch is small
local JOINS_LARGE = 108 -- 'l'
