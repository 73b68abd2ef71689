-- Replaces the functions of the libraries that reach outside of the block, and removes the rest of
-- them. Gets: what prints a text, and what gives the seconds since 1970.
local write, now = ...
local tostring, select, concat = tostring, select, table.concat
local error, collect, load_chunk = error, collectgarbage, load
local clock, date, time = os.clock, os.date, os.time

function print(...)
  local parts = {}
  for position = 1, select("#", ...) do
    parts[position] = tostring((select(position, ...)))
  end
  write(concat(parts, "\t") .. "\n")
end

-- Bytecode can break the interpreter: only text is loaded.
function load(chunk, name, _, ...)
  if select("#", ...) > 0 then
    return load_chunk(chunk, name, "t", (...))
  end
  return load_chunk(chunk, name, "t")
end

function collectgarbage(option)
  if option ~= nil and option ~= "collect" and option ~= "count" then
    error("`collectgarbage` has only `collect` and `count` here", 2)
  end
  return collect(option)
end

os = {
  clock = clock,
  date = function(format, at)
    return date(format, at == nil and now() or at)
  end,
  time = function(of)
    if of == nil then
      return now()
    end
    return time(of)
  end,
}

for _, name in ipairs({ "debug", "dofile", "io", "loadfile", "package", "require", "warn" }) do
  _G[name] = nil
end
string.dump = nil
