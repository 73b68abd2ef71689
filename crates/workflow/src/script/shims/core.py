# One helper per paragraph; a block gets those that it uses, and what they need.

#: refuse
def __refuse__(what):
    raise NotImplementedError('embedded Python: ' + what)

#: print refuse
def __print__(*values, sep=' ', end='\n', file=None, flush=False):
    import sys
    if file is not None and file is not sys.stdout and file is not sys.stderr:
        __refuse__('`print` to a file')
    print(*values, sep=' ' if sep is None else sep, end='\n' if end is None else end)

#: formatted
def __formatted__(value):
    if isinstance(value, (str, int, float)) or repr(type(value)) in ("<class 'datetime.date'>", "<class 'datetime.datetime'>", "<class 'datetime.time'>"):
        return value
    raise TypeError(f'unsupported format string passed to {type(value).__name__}.__format__')

#: m_format refuse
def __m_format__(text, *values, **named):
    if isinstance(text, str):
        shown = list(values) + list(named.values())
        plain = all([isinstance(value, (str, int, float)) for value in shown])
        if not plain:
            for part in text.replace('{{', '').split('{')[1:]:
                field, _, spec = part.partition('}')[0].partition(':')
                if spec and '!' not in field:
                    for value in shown:
                        if not isinstance(value, (str, int, float)) and not repr(type(value)).startswith("<class 'datetime."):
                            __refuse__('`str.format` with a format of ' + ('None' if value is None else f'a `{type(value).__name__}`'))
    if named:
        return text.format(*values, **named)
    return text.format(*values)

#: m_fromisoformat refuse
def __m_fromisoformat__(kind, text):
    if not isinstance(text, str):
        raise TypeError('fromisoformat: argument must be str')
    shape = ''.join(['0' if char in '0123456789' else char for char in text])
    day, rest = shape[:10], shape[11:]
    if day == '0000-00-00' and len(shape) == 10:
        return kind.fromisoformat(text)
    zone = ''
    if rest.endswith('Z'):
        rest = rest[:-1]
    elif rest[-6:] in ('+00:00', '-00:00'):
        rest = rest[:-6]
    if day == '0000-00-00' and rest in ('00:00', '00:00:00', '00:00:00.000', '00:00:00.000000'):
        return kind.fromisoformat(text)
    if shape[:1] == '0' and all([char in '0TW:+-.,Z ' for char in shape]):
        __refuse__('`fromisoformat` of ' + repr(text))
    raise ValueError('Invalid isoformat string: ' + repr(text))

#: round
def __round__(number, ndigits=None):
    if ndigits is None:
        return round(number)
    if isinstance(number, float) and isinstance(ndigits, int) and ndigits >= 0:
        if ndigits > 323 or number - number != 0:
            return number
        return float(f'{number:.{ndigits}f}')
    return round(number, ndigits)

#: caught refuse
def __caught__(error, then=None):
    if isinstance(error, TypeError) and all([part in __own__ for part in str(error).split('(')[0].split('.')]):
        return then
    if isinstance(error, (AttributeError, NotImplementedError, PermissionError, NameError, ImportError, RuntimeError, TypeError, ValueError, LookupError)):
        __host_caught__(repr(error), str(error))
    return then

#: keyed refuse
def __keyed__(error):
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
        key = error.args[0]
        if key in ('None', 'True', 'False') or key.startswith('(') or key.lstrip('-').replace('.', '', 1).isdigit():
            __refuse__('the argument of a KeyError, whose key may not be text')
    return error

#: gen
def __gen_type__():
    class generator:
        def __init__(self, step, source):
            self.__step = step
            self.__source = iter(source)
            self.__ready = []
        def __iter__(self):
            return self
        def __next__(self):
            while not self.__ready:
                self.__ready = self.__step(next(self.__source))
                self.__ready.reverse()
            return self.__ready.pop()
    return generator
__gen__ = __gen_type__()

#: map
def __map_type__():
    class map:
        def __init__(self, function, *sources):
            if not sources:
                raise TypeError('map() must have at least two arguments.')
            self.__function = function
            self.__sources = [iter(source) for source in sources]
        def __iter__(self):
            return self
        def __next__(self):
            if len(self.__sources) == 1:
                return self.__function(next(self.__sources[0]))
            arguments = []
            for source in self.__sources:
                arguments.append(next(source))
            return self.__function(*arguments)
    return map
__map__ = __map_type__()

#: filter
def __filter_type__():
    class filter:
        def __init__(self, function, source):
            self.__function = function
            self.__source = iter(source)
        def __iter__(self):
            return self
        def __next__(self):
            while True:
                item = next(self.__source)
                if (item if self.__function is None else self.__function(item)):
                    return item
    return filter
__filter__ = __filter_type__()

#: zip
def __zip_type__():
    class zip:
        def __init__(self, *sources, strict=False):
            self.__sources = [iter(source) for source in sources]
            self.__strict = strict
        def __iter__(self):
            return self
        def __next__(self):
            if not self.__sources:
                raise StopIteration
            items = []
            missing = []
            for source in self.__sources:
                found = next(source, missing)
                if found is missing:
                    if self.__strict:
                        raise NotImplementedError('embedded Python: `zip(strict=True)` whose parts differ in length')
                    raise StopIteration
                items.append(found)
            return tuple(items)
    return zip
__zip__ = __zip_type__()

#: enumerate
def __enumerate_type__():
    class enumerate:
        def __init__(self, iterable, start=0):
            self.__source = iter(iterable)
            self.__next_index = start
        def __iter__(self):
            return self
        def __next__(self):
            item = next(self.__source)
            index = self.__next_index
            self.__next_index = index + 1
            return index, item
    return enumerate
__enumerate__ = __enumerate_type__()

#: reversed
def __reversed_type__():
    class reversed_iterator:
        def __init__(self, items):
            self.__items = items
            self.__at = len(items)
        def __iter__(self):
            return self
        def __next__(self):
            if self.__at > len(self.__items):
                self.__at = 0
            if self.__at <= 0:
                raise StopIteration
            self.__at -= 1
            return self.__items[self.__at]
    def make(items):
        if isinstance(items, list):
            return reversed_iterator(items)
        return iter(reversed(items))
    return make
__reversed__ = __reversed_type__()

#: sum
def __sum__(items, start=0):
    total = start
    if isinstance(start, str):
        raise TypeError("sum() can't sum strings [use ''.join(seq) instead]")
    if isinstance(start, bool):
        start = int(start)
    items = [int(item) if item is True or item is False else item for item in items]
    return sum(items, start)

#: mod percent refuse
def __mod__(left, right):
    if isinstance(left, str):
        return __percent__(left, right)
    if isinstance(left, bytes):
        __refuse__('`%` formatting of bytes')
    return left % right

#: div refuse
def __div__(left, right):
    if isinstance(left, int) and isinstance(right, int):
        limit = 9007199254740992
        if not (-limit <= left <= limit and -limit <= right <= limit) and right != 0:
            if left is True or left is False or right is True or right is False:
                __refuse__('arithmetic with a bool')
            return __exact_div__(left, right)
    return left / right

def __exact_div__(left, right):
    negative = (left < 0) != (right < 0)
    left, right = abs(left), abs(right)
    if left == 0:
        return -0.0 if negative and False else 0.0
    # A quotient of 66 bits or more whose lowest bit says whether something was cut, then rounded half to even.
    exponent = __bits__(left) - __bits__(right) - 66
    if exponent > 0:
        quotient, rest = divmod(left, right << exponent)
    else:
        quotient, rest = divmod(left << -exponent, right)
    size = __bits__(quotient)
    drop = max(size - 53, -1074 - exponent)
    if drop > 0:
        half = 1 << (drop - 1)
        low = quotient & ((1 << drop) - 1)
        quotient >>= drop
        if low > half or (low == half and (rest or quotient & 1)):
            quotient += 1
        exponent += drop
    if __bits__(quotient) + exponent > 1024:
        raise OverflowError('integer division result too large for a float')
    value = float(quotient)
    while exponent > 0:
        step = min(exponent, 500)
        value *= 2.0 ** step
        exponent -= step
    while exponent < 0:
        step = min(-exponent, 500)
        value /= 2.0 ** step
        exponent += step
    return -value if negative else value

def __bits__(number):
    return len(bin(number)) - 2 if number else 0

#: pow refuse
def __pow__(left, right):
    value = left ** right
    if isinstance(value, float) and value != value and left == left and right == right:
        __refuse__('a complex number')
    return value

#: floordiv
def __floordiv__(left, right):
    if isinstance(left, float) or isinstance(right, float):
        if isinstance(left, (int, float)) and isinstance(right, (int, float)) and right:
            return __float_divmod__(float(left), float(right))[0]
    return left // right

def __float_divmod__(left, right):
    # As CPython: the quotient is computed from the exact remainder.
    import math
    if left - left != 0:
        return math.nan, math.nan
    rest = math.fmod(left, right)
    quotient = (left - rest) / right
    if rest:
        if (right < 0) != (rest < 0):
            rest += right
            quotient -= 1.0
    else:
        rest = math.copysign(0.0, right)
    if quotient:
        whole = quotient // 1
        if quotient - whole > 0.5:
            whole += 1.0
    else:
        whole = math.copysign(0.0, left / right)
    return whole, rest

#: divmod floordiv
def __divmod__(left, right):
    if isinstance(left, float) or isinstance(right, float):
        if isinstance(left, (int, float)) and isinstance(right, (int, float)) and right:
            return __float_divmod__(float(left), float(right))
    return divmod(left, right)

#: counter refuse
def __is_counter__(value):
    return isinstance(value, dict) and type(value) is not dict and 'Counter' in repr(type(value))

def __keep_counts__(owner, counts):
    owner.clear()
    for key, count in counts.items():
        owner[key] = count
    return owner

#: or counter
def __or__(left, right):
    if isinstance(left, dict) and isinstance(right, dict):
        if type(left) is not dict or type(right) is not dict:
            return __merged_kinds__(left, right)
        return __merged__(left, right)
    return left | right

def __merged_kinds__(left, right):
    if __is_counter__(left) and __is_counter__(right):
        counts = left.copy()
        for key, count in right.items():
            counts[key] = max(count, left[key])
        return __keep_counts__(left.copy(), {key: count for key, count in counts.items() if count > 0})
    if __is_counter__(left) or __is_counter__(right):
        __refuse__('`|` between a `Counter` and another dict')
    merged = right.copy() if type(left) is dict else left.copy()
    merged.clear()
    merged.update(left)
    merged.update(right)
    return merged

def __merged__(left, right):
    merged = left.copy()
    merged.update(right)
    return merged

#: ior or
def __ior__(left, right):
    if isinstance(left, dict):
        if __is_counter__(left):
            return __keep_counts__(left, __merged_kinds__(left, right))
        left.update(right)
        return left
    if isinstance(left, set) and isinstance(right, (set, frozenset)):
        left.update(right)
        return left
    return left | right

#: imul
def __imul__(left, right):
    if isinstance(left, list) and isinstance(right, int):
        items = left * right
        left.clear()
        left.extend(items)
        return left
    return left * right

#: iadd counter
def __iadd__(left, right):
    if __is_counter__(left) and __is_counter__(right):
        return __keep_counts__(left, left + right)
    left += right
    return left

#: isub counter
def __isub__(left, right):
    if __is_counter__(left) and __is_counter__(right):
        return __keep_counts__(left, left - right)
    if isinstance(left, set) and isinstance(right, (set, frozenset)):
        items = left - right
        left.clear()
        left.update(items)
        return left
    return left - right

#: iand counter
def __iand__(left, right):
    if __is_counter__(left) and __is_counter__(right):
        return __keep_counts__(left, left & right)
    if isinstance(left, set) and isinstance(right, (set, frozenset)):
        items = left & right
        left.clear()
        left.update(items)
        return left
    return left & right

#: ixor
def __ixor__(left, right):
    if isinstance(left, set) and isinstance(right, (set, frozenset)):
        items = left ^ right
        left.clear()
        left.update(items)
        return left
    return left ^ right

#: delitem setslice
def __delitem__(items, key):
    if isinstance(items, dict):
        items.pop(key)
    elif isinstance(items, list):
        if isinstance(key, slice):
            __setslice__(items, key, [])
        elif not isinstance(key, int):
            raise TypeError('list indices must be integers or slices')
        elif not -len(items) <= key < len(items):
            raise IndexError('list assignment index out of range')
        else:
            items.pop(key)
    else:
        raise TypeError('object does not support item deletion')

#: setslice
def __setslice__(items, key, values):
    if not isinstance(items, list):
        raise TypeError('object does not support slice assignment')
    values = list(values)
    places = list(range(len(items)))[key]
    step = key.step
    if step is None or step == 1:
        start = places[0] if places else __slice_start__(key.start, len(items))
        count = len(places)
        whole = items[:start] + values + items[start + count:]
    elif not values and __slice_deletes__(key):
        gone = set(places)
        whole = [item for n, item in enumerate(items) if n not in gone]
    else:
        if len(places) != len(values):
            raise ValueError(f'attempt to assign sequence of size {len(values)} to extended slice of size {len(places)}')
        for n, place in enumerate(places):
            items[place] = values[n]
        return
    items.clear()
    items.extend(whole)

def __slice_deletes__(key):
    return True

def __slice_start__(start, length):
    if start is None:
        return 0
    if start < 0:
        return max(0, start + length)
    return min(start, length)

#: bound
def __bound__(owner, plain, method):
    for kind in (str, dict, list, set, tuple, bytes, frozenset, int, float):
        if owner is kind:
            def unbound(*arguments, **named):
                if not arguments:
                    raise TypeError('unbound method needs an argument')
                if not isinstance(arguments[0], kind):
                    raise TypeError('descriptor requires another type of object')
                return method(arguments[0], *arguments[1:], **named)
            return unbound
    if isinstance(owner, (str, dict, list, set, tuple, bytes, frozenset)) or isinstance(owner, (int, float)):
        fields = hasattr(owner, '_fields')
        if not fields:
            return lambda *arguments, **named: method(owner, *arguments, **named)
    return plain(owner)

#: flagor re or
def __flagor__(left, right):
    if isinstance(left, __re__._kind) or isinstance(right, __re__._kind):
        return __re__._flag(__re__._number(left) | __re__._number(right))
    return __or__(left, right)

#: flagior flagor ior
def __flagior__(left, right):
    if isinstance(left, __re__._kind) or isinstance(right, __re__._kind):
        return __flagor__(left, right)
    return __ior__(left, right)

#: flagand re
def __flagand__(left, right):
    if isinstance(left, __re__._kind) or isinstance(right, __re__._kind):
        return __re__._flag(__re__._number(left) & __re__._number(right))
    return left & right

#: isinstance re refuse
def __isinstance__(value, kinds):
    if isinstance(value, __re__._kind):
        __refuse__('`isinstance` of a flag of `re`')
    return isinstance(value, kinds)

#: item
def __item__(owner, key):
    if isinstance(owner, __re__.Match):
        return owner.group(key)
    return owner[key]

#: hasattr names refuse
def __hasattr__(owner, name):
    names = __names__of(owner)
    if names is not None and isinstance(name, str):
        return name in names or (name.startswith('__') and name in __dunders__of(owner))
    if isinstance(name, str) and name.startswith('__') and name.endswith('__') and not hasattr(owner, name):
        __refuse__('`hasattr` of ' + repr(name) + ' here')
    return hasattr(owner, name)

#: getattr names refuse
def __getattr__(owner, name, *default):
    names = __names__of(owner)
    if names is not None and isinstance(name, str):
        if name in names or name in __dunders__of(owner):
            __refuse__('`getattr` of a method of a built-in type')
    return getattr(owner, name, *default)

#: callable
def __callable__(value):
    if value is None or isinstance(value, (str, int, float, bytes, list, dict, set, frozenset, tuple, range)):
        return False
    text = repr(type(value))
    if text in ("<class 'function'>", "<class 'builtin_function_or_method'>", "<class 'type'>", "<class 'method'>"):
        return True
    return text.startswith("<class 'functools")

#: issubclass refuse
def __issubclass__(kind, of):
    __refuse__('the built-in `issubclass`')

#: format formatted
def __format__(value, spec=''):
    return f'{__formatted__(value):{spec}}' if spec else str(value)

#: ascii
def __ascii__(value):
    return f'{value!a}'

#: names
__method_names__ = {}
def __names__of(owner):
    if isinstance(owner, bool):
        kind = 'int'
    elif isinstance(owner, str) or owner is str:
        kind = 'str'
    elif (isinstance(owner, dict) and repr(type(owner)) == "<class 'dict'>") or owner is dict:
        kind = 'dict'
    elif isinstance(owner, list) or owner is list:
        kind = 'list'
    elif isinstance(owner, set) or owner is set:
        kind = 'set'
    elif isinstance(owner, frozenset) or owner is frozenset:
        kind = 'frozenset'
    elif (isinstance(owner, tuple) and not hasattr(owner, '_fields')) or owner is tuple:
        kind = 'tuple'
    elif isinstance(owner, bytes) or owner is bytes:
        kind = 'bytes'
    elif isinstance(owner, int) or owner is int:
        kind = 'int'
    elif isinstance(owner, float) or owner is float:
        kind = 'float'
    elif owner is None:
        kind = 'none'
    else:
        return None
    return __method_names__[kind]

def __dunders__of(owner):
    common = ['__class__', '__doc__', '__eq__', '__ne__', '__lt__', '__le__', '__gt__', '__ge__', '__hash__', '__init__', '__new__', '__repr__', '__str__', '__format__', '__dir__', '__reduce__', '__sizeof__', '__getattribute__', '__setattr__', '__delattr__', '__init_subclass__', '__subclasshook__', '__reduce_ex__']
    sized = ['__len__', '__iter__', '__contains__']
    if isinstance(owner, (str, tuple, list, bytes)):
        return common + sized + ['__getitem__', '__add__', '__mul__', '__rmul__'] + (['__setitem__', '__delitem__', '__reversed__', '__iadd__', '__imul__'] if isinstance(owner, list) else []) + (['__mod__', '__rmod__'] if isinstance(owner, (str, bytes)) else [])
    if isinstance(owner, dict):
        return common + sized + ['__getitem__', '__setitem__', '__delitem__', '__reversed__', '__or__', '__ror__', '__ior__']
    if isinstance(owner, (set, frozenset)):
        return common + sized + ['__and__', '__or__', '__xor__', '__sub__']
    if isinstance(owner, (int, float)):
        return common + ['__add__', '__sub__', '__mul__', '__truediv__', '__floordiv__', '__mod__', '__pow__', '__neg__', '__pos__', '__abs__', '__bool__', '__int__', '__float__', '__round__', '__trunc__', '__floor__', '__ceil__', '__divmod__'] + (['__index__', '__and__', '__or__', '__xor__', '__lshift__', '__rshift__', '__invert__'] if isinstance(owner, int) else [])
    return common + (['__bool__'] if owner is None else [])

#: percent refuse
def __percent__(text, values):
    out = []
    at = 0
    used = 0
    mapping = isinstance(values, dict)
    given = values if isinstance(values, tuple) else (values,)
    missing = []
    named = False
    def take():
        nonlocal used
        if named or used >= len(given):
            raise TypeError('not enough arguments for format string')
        used += 1
        return given[used - 1]
    while at < len(text):
        end = text.find('%', at)
        if end < 0:
            out.append(text[at:])
            break
        out.append(text[at:end])
        at = end + 1
        value = missing
        if text[at:at + 1] == '(':
            depth = 1
            begin = at = at + 1
            while depth and at < len(text):
                depth += {'(': 1, ')': -1}.get(text[at], 0)
                at += 1
            if depth:
                raise ValueError('incomplete format key')
            if not mapping:
                raise TypeError('format requires a mapping')
            named = True
            value = values[text[begin:at - 1]]
        flags = ''
        while text[at:at + 1] and text[at] in '#0- +':
            flags += text[at]
            at += 1
        width = ''
        if text[at:at + 1] == '*':
            at += 1
            width = take()
            if not isinstance(width, int):
                raise TypeError('* wants int')
            if width < 0:
                flags += '-'
                width = -width
            width = str(width)
        else:
            while text[at:at + 1] and text[at] in '0123456789':
                width += text[at]
                at += 1
        precision = None
        if text[at:at + 1] == '.':
            at += 1
            precision = ''
            if text[at:at + 1] == '*':
                at += 1
                precision = take()
                if not isinstance(precision, int):
                    raise TypeError('* wants int')
                precision = str(max(0, precision))
            else:
                while text[at:at + 1] and text[at] in '0123456789':
                    precision += text[at]
                    at += 1
            precision = int(precision or '0')
        while text[at:at + 1] and text[at] in 'hlL':
            at += 1
        if at >= len(text):
            raise ValueError('incomplete format')
        kind = text[at]
        at += 1
        if kind == '%':
            out.append('%')
            continue
        if kind not in 'srdiuxXoeEfFgGca':
            raise ValueError(f'unsupported format character {kind!r} (0x{ord(kind):x}) at index {at - 1}')
        if value is missing:
            value = take()
        out.append(__percent_one__(kind, flags, int(width or '0'), precision, value))
    if used < len(given) and not (mapping or named) and not (len(given) == 1 and isinstance(values, (list, bytes, range)) and False):
        raise TypeError('not all arguments converted during string formatting')
    return ''.join(out)

def __percent_one__(kind, flags, width, precision, value):
    sign = ''
    prefix = ''
    if kind in 'sra':
        body = str(value) if kind == 's' else repr(value) if kind == 'r' else f'{value!a}'
        if kind != 's' and body.startswith('json.JSONDecodeError('):
            body = body[5:]
        if precision is not None:
            body = body[:precision]
        return body + ' ' * (width - len(body)) if '-' in flags else ' ' * (width - len(body)) + body
    if kind == 'c':
        if isinstance(value, str):
            if len(value) != 1:
                raise TypeError('%c requires int or char')
            body = value
        elif isinstance(value, int):
            if 28 <= value <= 31:
                __refuse__('one of the characters U+001C to U+001F from `%c`')
            body = chr(value)
        else:
            raise TypeError('%c requires int or char')
        return body + ' ' * (width - len(body)) if '-' in flags else ' ' * (width - len(body)) + body
    if kind in 'diuxXo':
        if isinstance(value, float) and kind in 'diu':
            value = int(value)
        if not isinstance(value, int):
            if kind in 'diu':
                raise TypeError('%' + kind + ' format: a real number is required, not ' + type(value).__name__)
            raise TypeError('%' + kind + ' format: an integer is required, not ' + type(value).__name__)
        value = int(value)
        negative = value < 0
        size = abs(value)
        body = f'{size:x}' if kind == 'x' else f'{size:X}' if kind == 'X' else f'{size:o}' if kind == 'o' else str(size)
        if precision is not None:
            body = '0' * (precision - len(body)) + body
        if '#' in flags and kind in 'xXo':
            prefix = '0' + kind
    else:
        if not isinstance(value, (int, float)):
            raise TypeError('must be real number, not ' + type(value).__name__)
        value = float(value)
        negative = value < 0 or (value == 0 and str(value).startswith('-'))
        if precision is None:
            precision = 6
        if '#' in flags:
            __refuse__('the flag `#` of `%` formatting with a float')
        size = -value if negative else value
        body = f'{size:.{precision}{kind}}'
    sign = '-' if negative else '+' if '+' in flags else ' ' if ' ' in flags else ''
    room = width - len(sign) - len(prefix) - len(body)
    if '-' in flags:
        return sign + prefix + body + ' ' * room
    if '0' in flags and (body[:1] in '0123456789abcdefABCDEF') and body not in ('inf', 'nan', 'INF', 'NAN'):
        return sign + prefix + '0' * room + body
    return ' ' * room + sign + prefix + body

#: m_center
def __m_center__(text, width, fill=' '):
    if not isinstance(text, str):
        return text.center(width, fill)
    if len(fill) != 1:
        raise TypeError('The fill character must be exactly one character long')
    room = width - len(text)
    if room <= 0:
        return text
    left = room // 2 + (room & width & 1)
    return fill * left + text + fill * (room - left)

#: m_title refuse
def __m_title__(text):
    if isinstance(text, str):
        for char in text:
            if ord(char) > 127 and (len(char.upper()) > 1 or char in 'ǄǅǆǇǈǉǊǋǌǱǲǳ' or 'ა' <= char <= 'ჿ' or 'Ა' <= char <= 'Ჿ' or 'ᾀ' <= char <= 'ῼ'):
                __refuse__('`str.title` of ' + repr(char))
    return text.title()

#: m_capitalize refuse
def __m_capitalize__(text):
    if isinstance(text, str) and text:
        char = text[0]
        if ord(char) > 127 and (len(char.upper()) > 1 or char in 'ǄǅǆǇǈǉǊǋǌǱǲǳ' or 'ა' <= char <= 'ჿ' or 'Ა' <= char <= 'Ჿ' or 'ᾀ' <= char <= 'ῼ'):
            __refuse__('`str.capitalize` of ' + repr(char))
    return text.capitalize()

#: m_casefold refuse
def __m_casefold__(text):
    if isinstance(text, str) and not all(ord(char) < 128 for char in text):
        for char in text:
            if ord(char) > 127 and (len(char.upper()) > 1 or char.upper().lower() != char.lower()):
                __refuse__('`str.casefold` of ' + repr(char))
    return text.casefold()

#: m_splitlines
def __m_splitlines__(text, keepends=False):
    if not isinstance(text, str):
        return text.splitlines(keepends)
    lines = []
    at = begin = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char in '\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029':
            end = at - 1
            if char == '\r' and text[at:at + 1] == '\n':
                at += 1
            lines.append(text[begin:at] if keepends else text[begin:end])
            begin = at
    if begin < len(text):
        lines.append(text[begin:])
    return lines

#: m_translate refuse
def __m_translate__(text, table):
    if not isinstance(text, str):
        return text.translate(table)
    out = []
    for char in text:
        new = table.get(ord(char), char) if isinstance(table, dict) else table[ord(char)]
        if new is not None:
            if isinstance(new, int) and 28 <= new <= 31:
                __refuse__('one of the characters U+001C to U+001F from `str.translate`')
            out.append(chr(new) if isinstance(new, int) else new)
    return ''.join(out)

#: m_maketrans
def __m_maketrans__(kind, first, second=None, gone=None):
    if kind is not str and not isinstance(kind, str):
        return kind.maketrans(first, second, gone)
    if second is None:
        if not isinstance(first, dict):
            raise TypeError('if you give only one argument to maketrans it must be a dict')
        return {ord(key) if isinstance(key, str) else key: value for key, value in first.items()}
    if len(first) != len(second):
        raise ValueError('the first two maketrans arguments must have equal length')
    table = {ord(a): ord(b) for a, b in zip(first, second)}
    for char in gone or '':
        table[ord(char)] = None
    return table

#: m_format_map
def __m_format_map__(text, mapping):
    return text.format(**mapping)

#: m_isprintable refuse
def __m_isprintable__(text):
    if isinstance(text, str):
        if not all(ord(char) < 128 for char in text):
            __refuse__('`str.isprintable` of text beyond ASCII')
        return all(32 <= ord(char) < 127 for char in text)
    return text.isprintable()

#: m_from_iterable gen
def __m_from_iterable__(kind, sources):
    return __gen__(lambda source: list(source), sources)

#: m_is_integer
def __m_is_integer__(number):
    if isinstance(number, float):
        return number - number == 0 and number == int(number)
    if isinstance(number, int):
        return True
    return number.is_integer()

#: m_bit_length
def __m_bit_length__(number):
    if isinstance(number, int):
        return len(bin(abs(number))) - 2 if number else 0
    return number.bit_length()

#: chr separators
def __chr__(number):
    return __without_separators__(chr(number))

#: m_decode separators
def __m_decode__(data, *rest, **named):
    text = data.decode(*rest, **named) if named else data.decode(*rest)
    return __without_separators__(text) if isinstance(text, str) else text

#: separators refuse
def __without_separators__(text):
    if '\x1c' in text or '\x1d' in text or '\x1e' in text or '\x1f' in text:
        __refuse__('one of the characters U+001C to U+001F in a block that looks for white space')
    return text

#: m_find beyond
def __m_find__(text, what, *place):
    if what == '' and __is_beyond__(text, place):
        return -1
    return text.find(what, *place)

#: m_rfind beyond
def __m_rfind__(text, what, *place):
    if what == '' and __is_beyond__(text, place):
        return -1
    return text.rfind(what, *place)

#: beyond
def __is_beyond__(text, place):
    return isinstance(text, str) and len(place) > 0 and place[0] is not None and place[0] > len(text)

#: nans refuse
__nans__ = [0]

def __has_nan__(value):
    if isinstance(value, float):
        return value != value
    if isinstance(value, dict):
        return any([__has_nan__(key) or __has_nan__(item) for key, item in value.items()])
    return isinstance(value, (list, tuple, set, frozenset)) and any([__has_nan__(item) for item in value])

def __one_nan__(value):
    if __nans__[0] > 1 and __has_nan__(value):
        __refuse__('comparing several NaNs in a container')

#: nan_of_math nans
__nans__[0] += 1

#: float nans
def __float__(*values):
    value = float(*values)
    if value != value:
        __nans__[0] += 1
    return value

#: nan_eq nans
def __nan_eq__(left, right):
    if isinstance(left, (list, tuple, dict, set, frozenset)) and __nans__[0] > 1 and __has_nan__(right):
        __one_nan__(left)
    return left == right

#: nan_ne nan_eq
def __nan_ne__(left, right):
    return not __nan_eq__(left, right) if isinstance(left, (list, tuple, dict, set, frozenset)) else left != right

#: nan_in nans
def __nan_in__(item, items):
    if __nans__[0] > 1 and __has_nan__(item):
        __one_nan__(items)
    return item in items

#: nan_not_in nan_in
def __nan_not_in__(item, items):
    return not __nan_in__(item, items)

#: set nans
def __set__(*values):
    made = set(*values)
    __one_nan__(made)
    return made

#: frozenset nans
def __frozenset__(*values):
    made = frozenset(*values)
    __one_nan__(made)
    return made

#: sorted nans
def __sorted__(items, *, key=None, reverse=False):
    if __nans__[0]:
        items = list(items)
        __sortable__(items, key)
    return sorted(items, key=key, reverse=reverse)

def __sortable__(items, key):
    if len(items) > 1 and any([__has_nan__(item if key is None else key(item)) for item in items]):
        __refuse__('sorting with a NaN')

#: m_sort sorted
def __m_sort__(owner, **named):
    if __nans__[0] and isinstance(owner, list):
        __sortable__(owner, named.get('key'))
    return owner.sort(**named)

#: m_remove nans
def __m_remove__(owner, what):
    __one_nan__(what)
    return owner.remove(what)

#: dict_key
__mixed__ = {}
__stored__ = {}

def __dict_key__(owner, key):
    # The interpreter replaces an equal key, as `True` for `1`; Python keeps the first.
    kind = type(key)
    if kind is str:
        return key
    if kind is int:
        if key not in __mixed__:
            return key
    elif kind is bool or (kind is float and key - key == 0 and key == int(key)):
        __mixed__[int(key)] = True
    else:
        return key
    if not isinstance(owner, dict) or key not in owner:
        return key
    place = (id(owner), int(key))
    if place not in __stored__:
        for known in owner:
            if known == key:
                # Keeping the dict keeps its identity from being used again.
                __stored__[place] = (owner, known)
                break
    return __stored__[place][1]

#: dict_key_bool dict_key
__mixed__[0] = __mixed__[1] = True

#: m_count beyond nans
def __m_count__(owner, what, *place):
    __one_nan__(what)
    if what == '' and __is_beyond__(owner, place):
        return 0
    return owner.count(what, *place)

#: m_index beyond nans
def __m_index__(owner, what, *place):
    __one_nan__(what)
    if what == '' and __is_beyond__(owner, place):
        raise ValueError('substring not found')
    return owner.index(what, *place)

#: m_rindex beyond
def __m_rindex__(owner, what, *place):
    if what == '' and __is_beyond__(owner, place):
        raise ValueError('substring not found')
    return owner.rindex(what, *place)

#: m_startswith beyond
def __m_startswith__(text, what, *place):
    return text.startswith(what, *place) and not __is_beyond__(text, place)

#: m_endswith beyond
def __m_endswith__(text, what, *place):
    return text.endswith(what, *place) and not __is_beyond__(text, place)

#: loads refuse
import json as __json__
__json_documents__ = {}
__seeks_blanks__ = [False]

def __loads__(text, *rest, **named):
    if __seeks_blanks__[0] and ('\\u001' in text if isinstance(text, str) else isinstance(text, bytes) and b'\\u001' in text):
        low = (text if isinstance(text, str) else text.decode()).lower()
        for escape in ('\\u001c', '\\u001d', '\\u001e', '\\u001f'):
            if escape in low:
                __refuse__('`' + escape + '` in JSON, where the block looks for white space')
    try:
        return __json__.loads(text, *rest, **named) if named else __json__.loads(text, *rest)
    except __json__.JSONDecodeError as error:
        found = error
    document = text if isinstance(text, str) else text.decode()
    message, place = __json_error__(document)
    if message is None:
        if '\\ud' in document.lower():
            __refuse__('half a surrogate pair in JSON')
        __refuse__('this JSON text: ' + str(found))
    before = document[:place]
    line = before.count('\n') + 1
    column = place - before.rfind('\n')
    message = f'{message}: line {line} column {column} (char {place})'
    __json_documents__[message] = document if __json_documents__.get(message, document) == document else None
    raise __json__.JSONDecodeError(message)

def __json_error__(text):
    # The error and its offset, as the reader of CPython finds them; None if that reader finds none.
    end = len(text)
    digits = '0123456789'
    class Wrong:
        def __init__(self, message, at):
            self.message = message
            self.at = at
    def blank(at):
        while at < end and text[at] in ' \t\n\r':
            at += 1
        return at
    def string(at):
        begin = at - 1
        while True:
            while at < end and text[at] != '"' and text[at] != '\\':
                if ord(text[at]) < 32:
                    return Wrong('Invalid control character at', at)
                at += 1
            if at >= end:
                return Wrong('Unterminated string starting at', begin)
            if text[at] == '"':
                return at + 1
            at += 1
            if at >= end:
                return Wrong('Unterminated string starting at', begin)
            if text[at] == 'u':
                # The four digits must not end the document.
                if at + 5 >= end or not all([char in '0123456789abcdefABCDEF' for char in text[at + 1:at + 5]]):
                    return Wrong('Invalid \\uXXXX escape', at)
                at += 5
            elif text[at] in '"\\/bfnrt':
                at += 1
            else:
                return Wrong('Invalid \\escape', at - 1)
    def number(at):
        begin = at
        if text[at:at + 1] == '-':
            at += 1
        if text[at:at + 1] == '' or text[at] not in digits:
            return Wrong('Expecting value', begin)
        if text[at] == '0':
            at += 1
        else:
            while at < end and text[at] in digits:
                at += 1
        if at + 1 < end and text[at] == '.' and text[at + 1] in digits:
            at += 1
            while at < end and text[at] in digits:
                at += 1
        if at < end and text[at] in 'eE':
            after = at + 1
            if after < end and text[after] in '+-':
                after += 1
            if after < end and text[after] in digits:
                at = after
                while at < end and text[at] in digits:
                    at += 1
        return at
    def value(at):
        if at >= end:
            return Wrong('Expecting value', at)
        char = text[at]
        if char == '"':
            return string(at + 1)
        if char == '[' or char == '{':
            return items(blank(at + 1), char == '{')
        for word in ('null', 'true', 'false', 'NaN', 'Infinity', '-Infinity'):
            if text.startswith(word, at):
                return at + len(word)
        return number(at)
    def items(at, named):
        closing = '}' if named else ']'
        if text[at:at + 1] == closing:
            return at + 1
        while True:
            if named:
                if text[at:at + 1] != '"':
                    return Wrong('Expecting property name enclosed in double quotes', at)
                at = string(at + 1)
                if isinstance(at, Wrong):
                    return at
                at = blank(at)
                if text[at:at + 1] != ':':
                    return Wrong("Expecting ':' delimiter", at)
                at = blank(at + 1)
            at = value(at)
            if isinstance(at, Wrong):
                return at
            at = blank(at)
            if text[at:at + 1] == closing:
                return at + 1
            if text[at:at + 1] != ',':
                return Wrong("Expecting ',' delimiter", at)
            comma = at
            at = blank(at + 1)
            if text[at:at + 1] == closing:
                kind = 'object' if named else 'array'
                return Wrong('Illegal trailing comma before end of ' + kind, comma)
    if text.startswith('\ufeff'):
        return 'Unexpected UTF-8 BOM (decode using utf-8-sig)', 0
    at = value(blank(0))
    if isinstance(at, Wrong):
        return at.message, at.at
    at = blank(at)
    return (None, at) if at == end else ('Extra data', at)

#: seeks_blanks loads
__seeks_blanks__[0] = True

#: json_part loads
def __json_part__(error, name):
    if not isinstance(error, __json__.JSONDecodeError):
        return getattr(error, name)
    message, _, place = str(error).rpartition(': line ')
    words = place.split(' ')
    if name == 'msg':
        return message
    if name == 'lineno':
        return int(words[0])
    if name == 'colno':
        return int(words[2])
    if name == 'pos':
        return int(words[4].rstrip(')'))
    document = __json_documents__.get(str(error))
    if document is None:
        __refuse__('`doc` of this `JSONDecodeError`')
    return document

#: error_repr
def __error_repr__(error):
    text = repr(error)
    return text[5:] if text.startswith('json.') else text

#: m_dumps
def __m_dumps__(module, value, *rest, default=None, cls=None, **options):
    if cls is not None:
        raise NotImplementedError('embedded Python: `json.dumps` with `cls`')
    if default is None or rest:
        return module.dumps(value, *rest, **options)
    inside = []
    def plain(value):
        if value is None or isinstance(value, (str, int, float)):
            return value
        for outer in inside:
            if outer is value:
                raise ValueError('Circular reference detected')
        inside.append(value)
        if isinstance(value, dict):
            made = {key: plain(item) for key, item in value.items()}
        elif isinstance(value, (list, tuple)):
            made = [plain(item) for item in value]
        else:
            made = plain(default(value))
        inside.pop()
        return made
    return module.dumps(plain(value), **options)

#: m_isoformat refuse
def __m_isoformat__(moment, sep='T', timespec='auto'):
    text = moment.isoformat()
    if sep == 'T' and timespec == 'auto':
        return text
    if not hasattr(moment, 'hour') or not hasattr(moment, 'year'):
        __refuse__('`isoformat` with arguments here')
    if len(sep) != 1:
        raise TypeError('isoformat() argument 1 must be a unicode character')
    zone = text[26:] if moment.microsecond else text[19:]
    micro = f'{moment.microsecond:06d}'
    if timespec == 'auto':
        clock = text[11:26] if moment.microsecond else text[11:19]
    elif timespec == 'hours':
        clock = text[11:13]
    elif timespec == 'minutes':
        clock = text[11:16]
    elif timespec == 'seconds':
        clock = text[11:19]
    elif timespec == 'milliseconds':
        clock = text[11:19] + '.' + micro[:3]
    elif timespec == 'microseconds':
        clock = text[11:19] + '.' + micro
    else:
        raise ValueError('Unknown timespec value')
    return text[:10] + sep + clock + zone

#: m_strftime refuse
def __m_strftime__(moment, form):
    at = form.find('%')
    safe = 'YmdHMSyIpjaAbBUWwFTR%GVu'
    out = []
    begin = 0
    while at >= 0:
        letter = form[at + 1:at + 2]
        if letter == 'f' and hasattr(moment, 'microsecond'):
            out.append(form[begin:at] + f'{moment.microsecond:06d}')
            begin = at + 2
        elif letter == 'f':
            out.append(form[begin:at] + '000000')
            begin = at + 2
        elif letter in ('z', 'Z') and hasattr(moment, 'year'):
            zone = ''
            if hasattr(moment, 'tzinfo') and moment.tzinfo is not None:
                text = moment.isoformat()
                zone = text[26:] if moment.microsecond else text[19:]
                if len(zone) != 6:
                    __refuse__('the time zone in `strftime`')
                if letter == 'z':
                    zone = zone.replace(':', '')
                elif repr(moment.tzinfo) == 'datetime.timezone.utc':
                    zone = 'UTC'
                else:
                    __refuse__('`%Z` in `strftime`')
            out.append(form[begin:at] + zone)
            begin = at + 2
        elif not letter or letter not in safe:
            if not (letter and letter in 'xXc' and hasattr(moment, 'year') and moment.year >= 1000):
                __refuse__('`%' + letter + '` in `strftime`')
        at = form.find('%', at + 2)
    if not out:
        return moment.strftime(form)
    out.append(form[begin:])
    return moment.strftime(''.join(out))

#: m_strptime refuse
def __m_strptime__(kind, text, form):
    if not isinstance(text, str) or not isinstance(form, str):
        return kind.strptime(text, form)
    letters = []
    at = form.find('%')
    while at >= 0:
        letters.append(form[at + 1:at + 2])
        at = form.find('%', at + 2)
    for letter in letters:
        if letter not in ('Y', 'm', 'd', 'H', 'M', 'S', 'y', 'b', 'B', 'f', 'j', '%'):
            __refuse__('`%' + letter + '` in `strptime`')
    day = 'j' in letters or ('d' in letters and ('m' in letters or 'b' in letters or 'B' in letters))
    if not day or not ('Y' in letters or 'y' in letters) or 'f' in letters and '.%f' not in form:
        __refuse__('`strptime` without a whole date')
    return kind.strptime(text, form)

#: m_utcnow
def __m_utcnow__(kind):
    return kind.now()

#: m_today
def __m_today__(kind):
    return kind.now() if repr(kind) == "<class 'datetime.datetime'>" else kind.today()

#: m_fromtimestamp refuse
def __m_fromtimestamp__(kind, seconds, tz=None):
    import datetime
    if tz is None or repr(kind) != "<class 'datetime.datetime'>":
        __refuse__('`fromtimestamp` without a time zone')
    if tz != datetime.timezone.utc:
        __refuse__('`fromtimestamp` in a zone other than UTC')
    whole = int(seconds // 1)
    micro = round((seconds - whole) * 1000000)
    return kind(1970, 1, 1, tzinfo=tz) + datetime.timedelta(seconds=whole, microseconds=micro)

#: m_utcfromtimestamp m_fromtimestamp
def __m_utcfromtimestamp__(kind, seconds):
    import datetime
    return __m_fromtimestamp__(kind, seconds, datetime.timezone.utc).replace(tzinfo=None)

#: m_toordinal
def __m_toordinal__(day):
    before = day.year - 1
    days = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334][day.month - 1]
    leap = day.month > 2 and (day.year % 4 == 0 and (day.year % 100 != 0 or day.year % 400 == 0))
    return before * 365 + before // 4 - before // 100 + before // 400 + days + (1 if leap else 0) + day.day

#: m_update
def __m_update__(owner, *others, **named):
    if isinstance(owner, set):
        for other in others:
            owner.update(other)
        return None
    return owner.update(*others, **named)

#: m_union
def __m_union__(owner, *others):
    if isinstance(owner, (set, frozenset)):
        whole = owner.copy()
        for other in others:
            whole = whole.union(other)
        return whole
    return owner.union(*others)

#: m_intersection
def __m_intersection__(owner, *others):
    if isinstance(owner, (set, frozenset)):
        whole = owner.copy()
        for other in others:
            whole = whole.intersection(other)
        return whole
    return owner.intersection(*others)

#: m_difference
def __m_difference__(owner, *others):
    if isinstance(owner, (set, frozenset)):
        whole = owner.copy()
        for other in others:
            whole = whole.difference(other)
        return whole
    return owner.difference(*others)
