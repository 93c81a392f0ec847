-- The commands of the server, and the numbers that batches and slots are measured by. `try` answers an error, which is
-- a table, instead of raising it. (Globals are slow.)
local call, try, type, pcall = redis.call, redis.pcall, type, pcall
local NEVER = 2 ^ 54 -- the expiry of a record that does not expire
local UNLEASED = 2 ^ 54 -- where a lease ends, for a paused timeline that is not open
local SMALL = 256 -- records: a batch that has no more, and no heavy one, has no orders
local LIGHT = 8192 -- bytes of a record in such a batch
local USUAL_PAYLOAD = 262208 -- bytes: a value, its codec and its timestamp; a larger payload is heavy
local SHIFT = 2e15 -- makes every time positive
-- The first byte of a record. Records of schema 1 have no form: they begin with their arrival number, which is lower,
-- and all of them have an expiry.
local FORM = 248
local EXPIRES, NAMELESS = 1, 2 -- more, if it has an expiry; if its payload is JSON without the name of the codec
-- The first byte of a slot to which a record can be added without changing it.
local JOINS = 106 -- 'j': its pending batch is small
local JOINS_LARGE = 108 -- 'l'
local OWN, OWN_LARGE = 112, 113 -- 'p' and 'q': the same with an override, whose capacity and ttl follow in the head
