-- The operations of a store. ARGV: the `run_id` of the server process, followed by ` durable` if the operator says that it
-- has all acknowledged writes when it starts again, the birth of the space that this client has used
-- (nothing if it has not used it), the name of an operation, the milliseconds to add to the server's time (tests shift
-- it), the prefix P of a space, and the operation's arguments. Returns the birth of the space, and the result. A script is
-- atomic. In a cluster, KEYS has the prefix of the shard of a space, which is P.
--
-- A server that starts again or becomes the primary may have lost writes: increments of counters, ends of leases, erases.
-- A server that was emptied has lost all. So a space has incarnations. With a new one, whose number is the server's time,
-- all counters change, leases end, and the caller ignores entries of earlier incarnations. The counters of the gateway
-- are sums of money and not epochs: they stay as they are, and begin at 0. Invariants:
--
--   1. Only a primary answers: each call reads the role together with the data.
--   2. The identity of a server (`run_id` and `master_replid`, which a server changes when it starts, when it becomes the
--      primary, and when its first replica connects) is read by the call that compares it. Connections of any age find
--      the same identity, so one change of it begins one incarnation.
--   3. Every operation compares the identity before it reads a counter or a lease.
--   4. A space is born when a client finds it empty. Its first incarnation is 0 (a counter that was never raised is 0);
--      each later one is a time after the birth. A client that has used the space sends the birth that it knows. If that
--      is another one, the counters that it has read are of a space that was emptied. They differ from those of a later
--      incarnation than 0, and the script begins one if there is none.
--
--   5. A durable server keeps its incarnation when it starts again, and when its first replica connects: it has lost
--      nothing. A replica that has taken over may have. It has another identity, too, and is recognized by either of
--        - `master_replid2`, the replication ID of its former primary, until it starts again, or has had no replica for
--          an hour (repl-backlog-ttl);
--        - the mark P..'m', which only copies have: each write of a primary sends it to the replicas, and neither keeps
--          it nor writes it to its own append-only file. A new incarnation removes it.
--      A copy that was made since the last write, and has received none, has no mark. If it takes over after writes that
--      it lacks, and starts again before any call, nothing tells it from its primary. The same is true of a backup that
--      takes the place of the data set: an operator who does that must not declare the server durable.
--
-- Together: a count or a lease that a client has read before writes were lost is not current in its next call, also if
-- other clients, which knew nothing of the space, have used it in between.
--
-- Keys of a space begin with its prefix P:
--   P..'r:'..key   a record: header, labels, value (see `record` below)
--   P..'k'         keys of records, by name
--   P..'n'         keys of records, by the sequence of writes
--   P..'u', P..'x' 16 digits of the sequence of writes and the key, by the time of use, and by expiry
--   P..'b'         labels: name, value and key, each but the last with an end mark, by name
--   P..'c:'..name  a counter; P..'cn': the names of counters
--   P..'l:'..key   a lease: fence, until (milliseconds), current (1 or 0), incarnation, labels
--   P..'ln'        keys of current leases, by name; P..'lu': the same, by `until`
--   P..'s'         the last number of the sequence of writes; P..'z': the number of records, and their bytes
--   cachalot:layout, in a cluster P..'v': the version of this layout. A process that knows earlier layouts only does
--   nothing: its writes would not be those of this layout
--   P..'i'         the incarnation, a space, and the identity of the server; P..'ib': the birth, in microseconds
--   P..'m'         the mark of a copy

local HOUR = 3600000
local END = '\0\0'
local HEADER = 50
local CHUNK = 256

local replication = redis.call('INFO', 'replication')
if string.match(replication, 'role:(%a+)') ~= 'master' then
    return redis.error_reply('READONLY this server is a replica')
end

-- The version of the layout; `record.rs` has the same.
local LAYOUT = 1
local layout_key = #KEYS == 0 and 'cachalot:layout' or ARGV[5] .. 'v'
if tonumber(redis.call('GET', layout_key) or '0') > LAYOUT then
    return redis.error_reply('TOONEW written by a newer version of Cachalot')
end

local run, durable = string.match(ARGV[1], '^(%S*)(.*)$')
local identity = run .. ':' .. (string.match(replication, 'master_replid:([^\r\n]*)') or '')

local clock = redis.call('TIME')
local shift = tonumber(ARGV[4])
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000) + shift
local microseconds = tonumber(clock[1]) * 1000000 + tonumber(clock[2])

-- Formats an integer, of which `tostring` would keep 14 digits.
local function digits(number)
    return string.format('%.0f', number)
end

-- True if the first of two counts, which may exceed what a number holds exactly, is less.
local function is_less(one, other)
    if #one ~= #other then
        return #one < #other
    end
    return one < other
end

-- Makes the script's writes allowed although the memory is full: Redis refuses only the first one, and only if it takes
-- memory. What follows frees memory, or must not be lost.
local function allow_without_memory(P)
    redis.call('ZREM', P .. 'ln', '')
end

-- True if the server is durable, and is not known to be a former replica.
local function has_lost_nothing(P)
    return durable == ' durable'
        and string.match(replication, 'master_replid2:0+[\r\n]') ~= nil
        and redis.call('EXISTS', P .. 'm') == 0
end

-- Marks the copies that replicas have.
local function mark_copies(P)
    if string.match(replication, 'connected_slaves:0[\r\n]') then
        return
    end
    redis.set_repl(redis.REPL_REPLICA)
    redis.pcall('SET', P .. 'm', 1)
    redis.set_repl(redis.REPL_NONE)
    redis.call('DEL', P .. 'm')
    redis.set_repl(redis.REPL_ALL)
end

-- True if a text is before another one in the order of their bytes, in which sets are. That of Lua's operators depends on
-- the locale of the server.
local function is_before(one, other)
    for at = 1, math.min(#one, #other) do
        local byte, other_byte = string.byte(one, at), string.byte(other, at)
        if byte ~= other_byte then
            return byte < other_byte
        end
    end
    return #one < #other
end

-- True if the counters of a space are sums, which no incarnation changes.
local function has_sums(P)
    return P == 'cachalot:{gateway}:' or P == 'cachalot:{other}:gateway:'
end

local incarnations = {}

-- Returns the number of a space's incarnation. Begins another one if the server is not the one that the space has been
-- used with, or if this client has used the space before it was emptied.
local function incarnation_of(P)
    if incarnations[P] then
        return incarnations[P]
    end
    local number, last = string.match(redis.call('GET', P .. 'i') or '', '^(%d+) (.*)$')
    local birth = redis.call('GET', P .. 'ib')
    local incarnation = tonumber(number or '0')
    local is_other_birth = P == ARGV[5] and ARGV[2] ~= '' and ARGV[2] ~= birth
    local is_over = last and last ~= identity and not has_lost_nothing(P) or is_other_birth and incarnation == 0
    if last ~= identity or is_over or not birth then
        -- Lookups work on a full server.
        allow_without_memory(P)
        if is_over then
            incarnation = math.max(incarnation + 1, now)
            local epochs = has_sums(P) and {} or redis.call('ZRANGE', P .. 'cn', 0, -1)
            for _, name in ipairs(epochs) do
                -- The largest count stays.
                redis.pcall('INCR', P .. 'c:' .. name)
                if is_less(redis.call('GET', P .. 'c:' .. name), digits(incarnation)) then
                    redis.call('SET', P .. 'c:' .. name, digits(incarnation))
                end
            end
        end
        redis.call('DEL', P .. 'm')
        redis.call('SET', P .. 'i', digits(incarnation) .. ' ' .. identity)
        if not last or not birth then
            redis.call('SET', P .. 'ib', digits(microseconds))
        end
        redis.call('SET', layout_key, LAYOUT)
    end
    incarnations[P] = incarnation
    return incarnation
end

-- Text without an end mark, in the same order.
local function escaped(text)
    return (string.gsub(text, '%z', '\0\1'))
end

local function label_prefix(name, value)
    return escaped(name) .. END .. escaped(value)
end

local function label_member(label, key)
    return label_prefix(label[1], label[2]) .. END .. key
end

-- Reads labels: the length of each name and value in four bytes, and its text.
local function read_labels(text, from, to)
    local labels, texts = {}, {}
    local at = from
    while at <= to do
        local length = struct.unpack('>I4', text, at)
        texts[#texts + 1] = string.sub(text, at + 4, at + 3 + length)
        at = at + 4 + length
    end
    for i = 1, #texts, 2 do
        labels[#labels + 1] = { texts[i], texts[i + 1] }
    end
    return labels
end

-- Reads the header and the labels of a record, not its value; nil if there is none. Header: version (1 byte), number
-- in the sequence of writes, revision, time of the write, incarnation (8 bytes each), 1 if it expires (1 byte), expiry
-- (8 bytes), lengths of the key and the labels (4 bytes each). The key, the labels and the value follow.
local function read_record(P, key)
    local name = P .. 'r:' .. key
    local text = redis.call('GETRANGE', name, 0, 1023)
    if #text == 0 then
        return nil
    end
    local _, id, revision, updated, incarnation, expires_at_all, expires, key_size, labels_size =
        struct.unpack('>Bi8i8i8i8Bi8I4I4', text)
    local start = HEADER + key_size + labels_size
    if start > #text then
        text = redis.call('GETRANGE', name, 0, start - 1)
    end
    local record = {
        key = key,
        id = id,
        revision = revision,
        updated = updated,
        incarnation = incarnation,
        labels = read_labels(text, HEADER + key_size + 1, start),
        start = start,
        size = redis.call('STRLEN', name) - start,
        properties = string.sub(text, 34, start),
    }
    if expires_at_all == 1 then
        record.expires = expires
    end
    return record
end

local function weight(record)
    local bytes = #record.key + record.size
    for _, label in ipairs(record.labels) do
        bytes = bytes + #label[1] + #label[2]
    end
    return bytes
end

local function order_member(record)
    return string.format('%016.0f', record.id) .. record.key
end

-- Removes a record from the indexes and from the usage.
local function unlist(P, record)
    redis.call('ZREM', P .. 'u', order_member(record))
    redis.call('ZREM', P .. 'x', order_member(record))
    for _, label in ipairs(record.labels) do
        redis.call('ZREM', P .. 'b', label_member(label, record.key))
    end
    redis.call('HINCRBY', P .. 'z', 'records', -1)
    redis.call('HINCRBY', P .. 'z', 'bytes', digits(-weight(record)))
end

-- Stores a record; `properties` are the bytes of the header from the expiry on, and the labels.
local function replace(P, key, properties, value)
    local before = read_record(P, key)
    if before then
        unlist(P, before)
    end
    local revision = before and before.revision + 1 or 1
    -- In microseconds, so that the records of several shards have an order.
    local id = math.max(tonumber(redis.call('GET', P .. 's') or '0') + 1, microseconds)
    redis.call('SET', P .. 's', digits(id))
    local text = struct.pack('>Bi8i8i8i8', 1, id, revision, now, incarnation_of(P)) .. properties
    redis.call('SET', P .. 'r:' .. key, text .. value)
    local expires_at_all, expires = struct.unpack('>Bi8', properties)
    local record = { key = key, id = id, size = #value, labels = read_labels(properties, 18 + #key, #properties) }
    redis.call('ZADD', P .. 'k', 0, key)
    redis.call('ZADD', P .. 'n', digits(id), key)
    redis.call('ZADD', P .. 'u', digits(now), order_member(record))
    redis.call('ZADD', P .. 'x', expires_at_all == 1 and digits(expires) or '+inf', order_member(record))
    for _, label in ipairs(record.labels) do
        redis.call('ZADD', P .. 'b', 0, label_member(label, key))
    end
    redis.call('HINCRBY', P .. 'z', 'records', 1)
    redis.call('HINCRBY', P .. 'z', 'bytes', digits(weight(record)))
    return revision
end

local function delete(P, record)
    unlist(P, record)
    redis.call('ZREM', P .. 'k', record.key)
    redis.call('ZREM', P .. 'n', record.key)
    redis.call('DEL', P .. 'r:' .. record.key)
end

-- Returns the value of a counter that was never raised.
local function first_count(P)
    return has_sums(P) and '0' or digits(incarnation_of(P))
end

local function counter(P, name)
    return redis.call('GET', P .. 'c:' .. name) or first_count(P)
end

local function set_counter(P, name, value)
    redis.call('SET', P .. 'c:' .. name, value)
    redis.call('ZADD', P .. 'cn', 0, name)
end

local function end_lease(P, key)
    redis.call('HSET', P .. 'l:' .. key, 'current', 0)
    redis.call('ZREM', P .. 'ln', key)
    redis.call('ZREM', P .. 'lu', key)
end

-- Returns the fence and the end of the current lease on a key; nil if there is none.
local function current_lease(P, key)
    local lease = redis.call('HMGET', P .. 'l:' .. key, 'fence', 'until', 'current', 'incarnation')
    if lease[3] == '1' and lease[4] == digits(incarnation_of(P)) then
        return lease[1], tonumber(lease[2])
    end
    return nil
end

-- Sets the end of a lease. Its key stays an hour longer, in the server's own time.
local function hold_lease(P, key, hold)
    redis.call('HSET', P .. 'l:' .. key, 'until', digits(now + hold))
    redis.call('PEXPIRE', P .. 'l:' .. key, digits(math.min(hold + HOUR, 1e15)))
    redis.call('ZADD', P .. 'lu', digits(now + hold), key)
end

-- Returns the fence, and the milliseconds for which another caller has the lease, or nothing.
local function reserve(P, key, labels, hold)
    local fence, lapses = current_lease(P, key)
    if fence and lapses > now then
        return { fence, digits(lapses - now) }
    end
    local last = tonumber(redis.call('HGET', P .. 'l:' .. key, 'fence') or '0')
    -- In microseconds: larger than what a server that lost its last writes has given.
    fence = digits(math.max(last + 1, microseconds))
    redis.call('HSET', P .. 'l:' .. key, 'fence', fence, 'current', 1, 'incarnation', digits(incarnation_of(P)),
        'labels', labels)
    redis.call('ZADD', P .. 'ln', 0, key)
    hold_lease(P, key, hold)
    -- Lapsed leases of keys that are not asked for again would accumulate in the indexes.
    for _, lapsed in ipairs(redis.call('ZRANGEBYSCORE', P .. 'lu', '-inf', digits(now - 2 * HOUR), 'LIMIT', 0, 10)) do
        end_lease(P, lapsed)
        redis.call('DEL', P .. 'l:' .. lapsed)
    end
    return { fence }
end

-- True if the whole text matches a pattern, in which `*` matches any text.
local function matches_glob(pattern, text)
    local first, rest = string.match(pattern, '^([^*]*)(.*)$')
    if rest == '' then
        return text == pattern
    end
    if string.sub(text, 1, #first) ~= first then
        return false
    end
    local at = #first + 1
    while true do
        local part, after = string.match(rest, '^%*([^*]*)(.*)$')
        if after == '' then
            return #text - #part + 1 >= at and string.sub(text, #text - #part + 1) == part
        end
        local _, found = string.find(text, part, at, true)
        if not found then
            return false
        end
        at = found + 1
        rest = after
    end
end

-- A criterion: its kind (`is`, `starts` or `glob`), the label's name, the value, prefix or pattern, and the prefix
-- of the values that can match.
local function meets(criteria, labels)
    for _, criterion in ipairs(criteria) do
        local is_met = false
        for _, label in ipairs(labels) do
            if label[1] == criterion.name then
                local value = label[2]
                is_met = is_met
                    or criterion.kind == 'is' and value == criterion.text
                    or criterion.kind == 'starts' and string.sub(value, 1, #criterion.text) == criterion.text
                    or criterion.kind == 'glob' and matches_glob(criterion.text, value)
            end
        end
        if not is_met then
            return false
        end
    end
    return true
end

-- Reads a filter and a page from the arguments: prefix, order, `1` if there is an expiry and the expiry, `1` if there is
-- a cursor and the cursor, limit, bytes of the values, and four arguments for each criterion.
local function read_filter(at)
    local filter = {
        prefix = ARGV[at],
        order = ARGV[at + 1],
        expired_before = ARGV[at + 2] == '1' and tonumber(ARGV[at + 3]) or nil,
        after = ARGV[at + 4] == '1' and ARGV[at + 5] or nil,
        limit = tonumber(ARGV[at + 6]),
        bytes = tonumber(ARGV[at + 7]),
        criteria = {},
    }
    for i = at + 8, #ARGV, 4 do
        filter.criteria[#filter.criteria + 1] =
            { kind = ARGV[i], name = ARGV[i + 1], text = ARGV[i + 2], prefix = ARGV[i + 3] }
    end
    return filter
end

-- True if a record whose key matches has the labels and the expiry.
local function matches(filter, record)
    return meets(filter.criteria, record.labels)
        and (not filter.expired_before or (record.expires and record.expires < filter.expired_before))
end

-- Returns the bounds of the names that begin with `prefix` and come after `after`. No text in UTF-8 has the byte 255.
local function bounds(prefix, after)
    local low = after and not is_before(after, prefix) and '(' .. after or '[' .. prefix
    return low, '[' .. prefix .. '\255'
end

-- Calls `each` with the members of a sorted set between two names, until it returns true.
local function scan_names(set, low, high, each)
    while true do
        local members = redis.call('ZRANGEBYLEX', set, low, high, 'LIMIT', 0, CHUNK)
        for _, member in ipairs(members) do
            if each(member) then
                return
            end
        end
        if #members < CHUNK then
            return
        end
        low = '(' .. members[#members]
    end
end

-- Calls `each` with the members of a sorted set in the order of their scores, until it returns true.
local function scan_scores(set, is_reverse, each)
    local from = 0
    while true do
        local members = redis.call(is_reverse and 'ZREVRANGE' or 'ZRANGE', set, from, from + CHUNK - 1)
        for _, member in ipairs(members) do
            if each(member) then
                return
            end
        end
        if #members < CHUNK then
            return
        end
        from = from + CHUNK
    end
end

-- Calls `each` with the members of a sorted set whose scores are less than a bound, in the order of their scores, until
-- it returns true.
local function scan_scores_below(set, bound, each)
    local from = 0
    while true do
        local members = redis.call('ZRANGEBYSCORE', set, '-inf', '(' .. digits(bound), 'LIMIT', from, CHUNK)
        for _, member in ipairs(members) do
            if each(member) then
                return
            end
        end
        if #members < CHUNK then
            return
        end
        from = from + CHUNK
    end
end

local function sort_in_order(P, records, order)
    local function by_id(one, other)
        return one.id < other.id
    end
    if order == 'key' then
        table.sort(records, function(one, other) return is_before(one.key, other.key) end)
    elseif order == 'newest' then
        table.sort(records, function(one, other) return by_id(other, one) end)
    else
        local set = order == 'used' and 'u' or 'x'
        for _, record in ipairs(records) do
            record.score = tonumber(redis.call('ZSCORE', P .. set, order_member(record)))
        end
        table.sort(records, function(one, other)
            if one.score ~= other.score then
                return one.score < other.score
            end
            return by_id(one, other)
        end)
    end
end

-- Text from which `escaped` was made.
local function unescaped(text)
    return (string.gsub(text, '%z\1', '\0'))
end

-- Returns the records of a page, without their values. In the order `any` an index is read no further than necessary.
local function select(P, filter)
    local records = {}
    if filter.limit == 0 then
        return records
    end
    -- All that match are taken from an index whose order is not that of the filter.
    local most = filter.limit
    local function take(key)
        if string.sub(key, 1, #filter.prefix) ~= filter.prefix or (filter.after and not is_before(filter.after, key)) then
            return false
        end
        local record = read_record(P, key)
        if record and matches(filter, record) then
            records[#records + 1] = record
        end
        return #records >= most
    end
    local function take_from_order(member)
        return take(string.sub(member, 17))
    end
    local has_order = filter.order ~= 'any'
    local leading = filter.criteria[1]
    for _, criterion in ipairs(filter.criteria) do
        if criterion.kind == 'is' then
            leading = criterion
            break
        end
    end
    local name = leading and label_prefix(leading.name, leading.prefix)
    if not leading and filter.expired_before then
        if has_order and filter.order ~= 'expiry' then
            most = math.huge
        end
        scan_scores_below(P .. 'x', filter.expired_before, take_from_order)
    elseif not leading and (filter.order == 'key' or not has_order) then
        local low, high = bounds(filter.prefix, filter.after)
        scan_names(P .. 'k', low, high, take)
    elseif not leading and filter.order == 'newest' then
        scan_scores(P .. 'n', true, take)
    elseif not leading then
        scan_scores(P .. (filter.order == 'used' and 'u' or 'x'), false, take_from_order)
    elseif leading.kind == 'is' then
        name = name .. END
        local low = bounds(name, filter.after and name .. filter.after)
        if filter.prefix ~= '' and (not filter.after or is_before(filter.after, filter.prefix)) then
            low = '[' .. name .. filter.prefix
        end
        if has_order and filter.order ~= 'key' then
            most = math.huge
        end
        scan_names(P .. 'b', low, '[' .. name .. filter.prefix .. '\255', function(member)
            return take(string.sub(member, #name + 1))
        end)
    else
        local seen = {}
        if has_order then
            most = math.huge
        end
        scan_names(P .. 'b', '[' .. name, '[' .. name .. '\255', function(member)
            -- The value follows the first end mark, the key the second one.
            local _, after_name = string.find(member, END, 1, true)
            local value_end, after_value = string.find(member, END, after_name + 1, true)
            local key = string.sub(member, after_value + 1)
            -- A pattern is compared with what the index has, before the record is read.
            if seen[key] or leading.kind == 'glob'
                and not matches_glob(leading.text, unescaped(string.sub(member, after_name + 1, value_end - 1))) then
                return false
            end
            seen[key] = true
            return take(key)
        end)
    end
    if most == math.huge then
        sort_in_order(P, records, filter.order)
        while #records > filter.limit do
            table.remove(records)
        end
    end
    return records
end

-- Returns, for each record, its key, its bytes with the requested part of the value, the size of the value, and the time
-- of the last use if that is the order.
local function page(P, records, filter)
    local result = {}
    for _, record in ipairs(records) do
        local last = record.start + math.min(filter.bytes, record.size) - 1
        result[#result + 1] = record.key
        result[#result + 1] = redis.call('GETRANGE', P .. 'r:' .. record.key, 0, last)
        result[#result + 1] = record.size
        result[#result + 1] = filter.order == 'used' and redis.call('ZSCORE', P .. 'u', order_member(record)) or '0'
    end
    return result
end

local operations = {}

-- Does nothing but what each call does first. Arguments: prefix.
function operations.meet()
    return 0
end

-- Arguments: prefix, key, stale (a revision, `0` for none, `-1` for any), hold, labels, `1` if records of earlier
-- incarnations do not answer, counters. Returns the time, the incarnation, the record, the reservation, and the counts.
function operations.get_or_reserve()
    local P, key, stale, hold, labels = ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8]), ARGV[9]
    local result = { digits(now), digits(incarnation_of(P)), redis.call('GET', P .. 'r:' .. key) }
    local record = read_record(P, key)
    if record and ARGV[10] == '1' and record.incarnation < incarnation_of(P) then
        record = nil
    end
    local answers = record and stale ~= '-1' and stale ~= digits(record.revision)
        and (not record.expires or record.expires > now)
    result[4] = answers and {} or reserve(P, key, labels, hold)
    for i = 11, #ARGV do
        result[#result + 1] = counter(P, ARGV[i])
    end
    return result
end

-- Arguments: prefix, key, hold, labels.
function operations.reserve()
    return reserve(ARGV[5], ARGV[6], ARGV[8], tonumber(ARGV[7]))
end

-- Arguments: prefix, key, fence, hold.
function operations.renew()
    allow_without_memory(ARGV[5])
    local P, key = ARGV[5], ARGV[6]
    if current_lease(P, key) ~= ARGV[7] then
        return 0
    end
    hold_lease(P, key, tonumber(ARGV[8]))
    return 1
end

-- Arguments: prefix, key, fence.
function operations.release()
    allow_without_memory(ARGV[5])
    if current_lease(ARGV[5], ARGV[6]) == ARGV[7] then
        end_lease(ARGV[5], ARGV[6])
    end
    return 0
end

-- Arguments: prefix, key, fence or nothing, properties, value, and names and values of counters. Returns the revision,
-- -1 if the lease is not current, or -2 minus the place of a changed counter.
function operations.put()
    local P, key, fence = ARGV[5], ARGV[6], ARGV[7]
    if fence ~= '' and current_lease(P, key) ~= fence then
        return -1
    end
    for i = 10, #ARGV, 2 do
        if counter(P, ARGV[i]) ~= ARGV[i + 1] then
            return -2 - (i - 10) / 2
        end
    end
    if fence ~= '' then
        end_lease(P, key)
    end
    return replace(P, key, ARGV[8], ARGV[9])
end

-- Arguments: prefix and key of the condition, `1` if there has to be a record, its value, and of each record prefix,
-- key, properties and value. Returns -1 if stored, -2 if the record is another one, or the milliseconds for which the
-- key is reserved.
function operations.put_all()
    local P, key = ARGV[5], ARGV[6]
    local fence, lapses = current_lease(P, key)
    if fence and lapses > now then
        return lapses - now
    end
    local found = read_record(P, key)
    if (found ~= nil) ~= (ARGV[7] == '1') then
        return -2
    end
    if found and redis.call('GETRANGE', P .. 'r:' .. key, found.start, -1) ~= ARGV[8] then
        return -2
    end
    if fence then
        end_lease(P, key)
    end
    for i = 9, #ARGV, 4 do
        local of, name, properties, value = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
        local before = read_record(of, name)
        local is_identical = before and before.properties == properties
            and redis.call('GETRANGE', of .. 'r:' .. name, before.start, -1) == value
        if not is_identical then
            replace(of, name, properties, value)
        end
    end
    return -1
end

-- Arguments: prefix, filter.
function operations.find()
    local filter = read_filter(6)
    return page(ARGV[5], select(ARGV[5], filter), filter)
end

-- Arguments: prefix, `1` if leases match, the number of keys and the keys or -1 for all that match, filter.
function operations.erase()
    allow_without_memory(ARGV[5])
    local P, count = ARGV[5], tonumber(ARGV[7])
    local filter = read_filter(8 + math.max(count, 0))
    if ARGV[6] == '1' then
        local erased = counter(P, 'erased')
        local next = digits(math.max(tonumber(erased) + 1, now, 1))
        set_counter(P, 'erased', next)
        local low, high = bounds(filter.prefix, filter.after)
        local ended = {}
        scan_names(P .. 'ln', low, high, function(key)
            local labels = redis.call('HGET', P .. 'l:' .. key, 'labels')
            if not labels or meets(filter.criteria, read_labels(labels, 1, #labels)) then
                ended[#ended + 1] = { key, labels }
            end
        end)
        for _, lease in ipairs(ended) do
            if lease[2] then
                end_lease(P, lease[1])
            else
                redis.call('ZREM', P .. 'ln', lease[1])
            end
        end
    end
    local records = {}
    for i = 8, 7 + count do
        local record = read_record(P, ARGV[i])
        if record and matches(filter, record) then
            records[#records + 1] = record
        end
    end
    if count < 0 then
        records = select(P, filter)
    end
    local result = page(P, records, filter)
    for _, record in ipairs(records) do
        delete(P, record)
    end
    return result
end

-- Arguments: prefix, names, additions and the least values afterwards.
function operations.add()
    allow_without_memory(ARGV[5])
    local P, result = ARGV[5], {}
    for i = 6, #ARGV, 3 do
        local name, least = ARGV[i], ARGV[i + 2]
        redis.call('ZADD', P .. 'cn', 0, name)
        redis.call('SET', P .. 'c:' .. name, first_count(P), 'NX')
        if type(redis.pcall('INCRBY', P .. 'c:' .. name, ARGV[i + 1])) == 'table' then
            redis.call('SET', P .. 'c:' .. name, '9223372036854775807')
        end
        if is_less(counter(P, name), least) then
            set_counter(P, name, least)
        end
        result[#result + 1] = counter(P, name)
    end
    return result
end

-- Arguments: prefix, names and values.
function operations.raise_to()
    allow_without_memory(ARGV[5])
    local P, result = ARGV[5], {}
    for i = 6, #ARGV, 2 do
        if is_less(counter(P, ARGV[i]), ARGV[i + 1]) then
            set_counter(P, ARGV[i], ARGV[i + 1])
        end
        result[#result + 1] = counter(P, ARGV[i])
    end
    return result
end

-- Arguments: prefix, prefix of the names, `1` if there is a cursor and the cursor, limit.
function operations.counters()
    local P, result = ARGV[5], {}
    local low, high = bounds(ARGV[6], ARGV[7] == '1' and ARGV[8] or nil)
    local limit = 2 * tonumber(ARGV[9])
    if limit == 0 then
        return result
    end
    scan_names(P .. 'cn', low, high, function(name)
        local value = counter(P, name)
        if value ~= '0' then
            result[#result + 1] = name
            result[#result + 1] = value
        end
        return #result >= limit
    end)
    return result
end

-- Arguments: prefix, keys and times.
function operations.touch()
    local P = ARGV[5]
    for i = 6, #ARGV, 2 do
        local record = read_record(P, ARGV[i])
        if record then
            redis.call('ZADD', P .. 'u', 'XX', 'GT', ARGV[i + 1], order_member(record))
        end
    end
    return 0
end

-- Arguments: prefix, key, value, revision, time of the write. Returns the new revision, or -1.
function operations.amend()
    local P, key, value = ARGV[5], ARGV[6], ARGV[7]
    local record = read_record(P, key)
    if not record or digits(record.revision) ~= ARGV[8] or digits(record.updated) ~= ARGV[9] then
        return -1
    end
    local front = struct.pack('>Bi8i8i8i8', 1, record.id, record.revision + 1, record.updated, record.incarnation)
    local text = front .. record.properties
    redis.call('SET', P .. 'r:' .. key, text .. value)
    redis.call('HINCRBY', P .. 'z', 'bytes', #value - record.size)
    return record.revision + 1
end

local WRITES = { add = true, amend = true, erase = true, put = true, put_all = true, raise_to = true, reserve = true }

incarnation_of(ARGV[5])
local result = operations[ARGV[3]]()
if WRITES[ARGV[3]] then
    mark_copies(ARGV[5])
end
return { redis.call('GET', ARGV[5] .. 'ib'), result }
