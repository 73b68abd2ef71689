# The patterns of Python, translated for the interpreter's own matcher.
import re as __sre__

def __re_module__():
    I, M, S, X, A, U = 2, 8, 16, 64, 256, 32
    space = ' \\t\\n\\r\\x0b\\x0c\\x1c-\\x1f\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000'
    classes = {'d': '\\p{Nd}', 'w': '\\p{L}\\p{N}_', 's': space}
    ascii_classes = {'d': '0-9', 'w': 'a-zA-Z0-9_', 's': ' \\t\\n\\r\\x0b\\x0c'}
    controls = {'a': '\\x07', 'f': '\\x0c', 'n': '\\n', 'r': '\\r', 't': '\\t', 'v': '\\x0b'}
    letters = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'
    digits = '0123456789'
    flag_letters = {'i': I, 'm': M, 's': S, 'x': X, 'a': A, 'u': U, 'L': 0}
    MOST = 1 << 30

    names = (('ASCII', A), ('IGNORECASE', I), ('UNICODE', U), ('MULTILINE', M), ('DOTALL', S), ('VERBOSE', X))

    class RegexFlag:
        def __init__(self, value):
            self.value = value
            self.name = '|'.join([name for name, bit in names if value & bit]) or None
        def __repr__(self):
            return '|'.join(['re.' + name for name, bit in names if self.value & bit])
        def __eq__(self, other):
            return isinstance(other, (int, RegexFlag)) and self.value == as_number(other)
        def __hash__(self):
            return hash(self.value)

    def as_number(flags):
        return flags.value if isinstance(flags, RegexFlag) else flags

    def flag(value):
        # A flag without a bit is false, which no object of a class can be.
        return RegexFlag(value) if value else lacks('the empty flag of `re`')

    def fail(message, at=None):
        if at is not None:
            message = message + ' at position ' + str(at)
        raise __sre__.PatternError(message)

    def lacks(what):
        raise NotImplementedError('embedded Python: ' + what)

    def literal(char):
        if char in letters or char in digits or char == '_' or ord(char) > 127:
            return char
        if ord(char) < 32 or ord(char) == 127:
            return '\\x' + format_hex(ord(char))
        if char in ' !"%\',/:;<=>@`':
            return char
        return '\\' + char

    def format_hex(code):
        return f'{code:02x}' if code < 256 else '{' + f'{code:x}' + '}'

    class Parser:
        def __init__(self, pattern, flags, shift, exact):
            self.text = pattern
            self.at = 0
            self.flags = flags
            self.shift = shift
            self.exact = exact
            self.groups = 0
            self.names = {}
            self.open = []
            self.widths = {}
            self.empty_first = False
            self.boundary = False

        def word(self, flags):
            return '[' + (ascii_classes if flags & A else classes)['w'] + ']'

        def alternatives(self, flags, top):
            parts = []
            low, high = MOST, 0
            captures = False
            first = True
            while True:
                text, least, most, captured = self.sequence(flags, top and first)
                if top and first:
                    flags = self.flags
                first = False
                parts.append(text)
                if low == 0 and len(parts) > 1:
                    self.empty_first = True
                low = min(low, least)
                high = max(high, most)
                captures = captures or captured
                if self.at < len(self.text) and self.text[self.at] == '|':
                    self.at += 1
                    continue
                return '|'.join(parts), low, high, captures

        def sequence(self, flags, leading):
            out = []
            low = high = 0
            captures = False
            while self.at < len(self.text) and self.text[self.at] not in '|)':
                start = self.at
                char = self.text[start]
                if flags & X:
                    if char in ' \t\n\r\x0b\x0c':
                        self.at += 1
                        continue
                    if char == '#':
                        end = self.text.find('\n', start)
                        self.at = len(self.text) if end < 0 else end + 1
                        continue
                item = self.item(flags, leading and start == 0)
                if item is None:
                    flags = self.flags if leading and start == 0 else flags
                    continue
                text, least, most, captured, kind = item
                repeat = self.repeat(flags)
                if repeat is not None:
                    fewest, most_times, mark, begin = repeat
                    if kind == 'anchor':
                        if fewest == 0 or mark not in ('', '?'):
                            lacks('a repeated assertion in a regular expression')
                    if captured and least == 0 and most_times > 1:
                        lacks('a repeated group that can match nothing, in a regular expression')
                    if mark == '?' and fewest != most_times:
                        self.empty_first = True
                    bounds = {(0, MOST): '*', (1, MOST): '+', (0, 1): '?'}.get((fewest, most_times))
                    if bounds is None:
                        if most_times == MOST:
                            bounds = '{' + str(fewest) + ',}'
                        else:
                            bounds = '{' + str(fewest) + ',' + str(most_times) + '}'
                    text = '(?:' + text + ')' + bounds + ('' if mark == '+' else mark)
                    if mark == '+':
                        text = '(?>' + text + ')'
                    least *= fewest
                    most = MOST if most_times == MOST and most else most * most_times
                    following = self.repeat(flags)
                    if following is not None:
                        fail('multiple repeat', following[3])
                out.append(text)
                low = min(low + least, MOST)
                high = min(high + most, MOST)
                captures = captures or captured
            return ''.join(out), low, high, captures

        def repeat(self, flags):
            while flags & X and self.at < len(self.text) and self.text[self.at] in ' \t\n\r\x0b\x0c':
                self.at += 1
            if self.at >= len(self.text):
                return None
            begin = self.at
            char = self.text[begin]
            if char == '*':
                bounds = (0, MOST)
                self.at += 1
            elif char == '+':
                bounds = (1, MOST)
                self.at += 1
            elif char == '?':
                bounds = (0, 1)
                self.at += 1
            elif char == '{':
                end = self.text.find('}', begin)
                inner = self.text[begin + 1:end] if end > 0 else ''
                low, comma, high = inner.partition(',')
                if end < 0 or not inner or not all(c in digits for c in low + high):
                    return None
                if not comma and not low:
                    return None
                fewest = int(low) if low else 0
                most = (int(high) if high else MOST) if comma else fewest
                if most < fewest:
                    fail('min repeat greater than max repeat', begin)
                if (fewest > 1000 or 1000 < most < MOST):
                    lacks('a repeat of more than 1,000 times in a regular expression')
                bounds = (fewest, most)
                self.at = end + 1
            else:
                return None
            mark = ''
            if self.at < len(self.text) and self.text[self.at] in '?+':
                mark = self.text[self.at]
                self.at += 1
            return bounds[0], bounds[1], mark, begin

        def item(self, flags, leading):
            start = self.at
            char = self.text[start]
            if char == '\\':
                return self.escape(flags)
            self.at += 1
            if char == '(':
                return self.group(flags, start, leading)
            if char == '[':
                return self.bracket(flags, start)
            if char == '.':
                return '(?s:.)' if flags & S else '[^\\n]', 1, 1, False, 'char'
            if char == '^':
                return '(?m:^)' if flags & M else '\\A', 0, 0, False, 'anchor'
            if char == '$':
                return '(?m:$)' if flags & M else '(?=\\n?\\z)', 0, 0, False, 'anchor'
            if char in '*+?':
                fail('nothing to repeat', start)
            if char == '{':
                self.at = start
                if self.repeat(flags) is not None:
                    fail('nothing to repeat', start)
                self.at = start + 1
            return literal(char), 1, 1, False, 'char'

        def code(self, size, begin):
            text = self.text[self.at:self.at + size]
            if len(text) < size or not all(c in '0123456789abcdefABCDEF' for c in text):
                fail('incomplete escape ' + self.text[begin:self.at + len(text)], begin)
            self.at += size
            code = int(text, 16)
            if 0xD800 <= code <= 0xDFFF or code > 0x10FFFF:
                fail('bad escape ' + self.text[begin:self.at], begin)
            return chr(code)

        def escaped_char(self, begin, inside):
            # The character that an escape stands for, or None.
            char = self.text[self.at]
            if char == 'x':
                self.at += 1
                return self.code(2, begin)
            if char == 'u':
                self.at += 1
                return self.code(4, begin)
            if char == 'U':
                self.at += 1
                return self.code(8, begin)
            if char in controls:
                self.at += 1
                return {'a': '\x07', 'f': '\x0c', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\x0b'}[char]
            if inside and char == 'b':
                self.at += 1
                return '\x08'
            octal = '01234567'
            digitcount = 0
            while digitcount < 3 and self.at + digitcount < len(self.text) and self.text[self.at + digitcount] in octal:
                digitcount += 1
            if char == '0' or digitcount == 3 or (inside and digitcount):
                code = int(self.text[self.at:self.at + digitcount], 8)
                if code > 255:
                    fail('octal escape value ' + self.text[begin:self.at + digitcount] + ' outside of range 0-0o377', begin)
                self.at += digitcount
                return chr(code)
            if char in digits:
                if inside:
                    fail('bad escape \\' + char, begin)
                return None
            if char in letters:
                fail('bad escape \\' + char, begin)
            self.at += 1
            return char

        def escape(self, flags):
            begin = self.at
            self.at += 1
            if self.at >= len(self.text):
                fail('bad escape (end of pattern)', begin)
            char = self.text[self.at]
            table = ascii_classes if flags & A else classes
            if char in 'dws':
                self.at += 1
                return '[' + table[char] + ']', 1, 1, False, 'char'
            if char in 'DWS':
                self.at += 1
                return '[^' + table[char.lower()] + ']', 1, 1, False, 'char'
            if char == 'A':
                self.at += 1
                return '\\A', 0, 0, False, 'anchor'
            if char == 'Z':
                self.at += 1
                return '\\z', 0, 0, False, 'anchor'
            if char in 'bB':
                self.at += 1
                self.boundary = True
                if not self.exact and not flags & A:
                    return '\\' + char, 0, 0, False, 'anchor'
                word = self.word(flags)
                if char == 'b':
                    text = f'(?:(?<={word})(?!{word})|(?<!{word})(?={word}))'
                else:
                    lacks('`\\B` in a regular expression on text beyond ASCII')
                return text, 0, 0, False, 'anchor'
            if char == 'N':
                lacks('`\\N{...}` in a regular expression')
            value = self.escaped_char(begin, False)
            if value is not None:
                return literal(value), 1, 1, False, 'char'
            number = char
            self.at += 1
            if self.at < len(self.text) and self.text[self.at] in digits:
                number += self.text[self.at]
                self.at += 1
            return self.backreference(int(number), begin + 1, flags)

        def backreference(self, number, at, flags):
            if number > self.groups:
                fail(f'invalid group reference {number}', at)
            if number in self.open:
                fail('cannot refer to an open group', at)
            if flags & I:
                lacks('a backreference in a regular expression that ignores case')
            least, most = self.widths.get(number, (0, MOST))
            named = [name for name, n in self.names.items() if n == number]
            text = f'(?P={named[0]})' if named and not self.shift else f'(?:\\{number + self.shift})'
            return text, least, most, False, 'group'

        def bracket(self, flags, start):
            negated = self.text[self.at:self.at + 1] == '^'
            if negated:
                self.at += 1
            parts = []
            first = True
            while True:
                if self.at >= len(self.text):
                    fail('unterminated character set', start)
                char = self.text[self.at]
                if char == ']' and not first:
                    self.at += 1
                    break
                first = False
                begin = self.at
                low, is_class = self.member(flags)
                if self.text[self.at:self.at + 1] == '-' and self.text[self.at + 1:self.at + 2] not in (']', ''):
                    self.at += 1
                    high, high_is_class = self.member(flags)
                    if is_class or high_is_class or ord(high) < ord(low):
                        fail('bad character range ' + self.text[begin:self.at], begin)
                    parts.append(literal(low) + '-' + literal(high))
                else:
                    parts.append(low if is_class else literal(low))
            body = ''.join(parts)
            return '[' + ('^' if negated else '') + body + ']', 1, 1, False, 'char'

        def member(self, flags):
            char = self.text[self.at]
            if char != '\\':
                self.at += 1
                return char, False
            begin = self.at
            self.at += 1
            if self.at >= len(self.text):
                fail('bad escape (end of pattern)', begin)
            char = self.text[self.at]
            table = ascii_classes if flags & A else classes
            if char in 'dws':
                self.at += 1
                return table[char], True
            if char in 'DWS':
                self.at += 1
                return '[^' + table[char.lower()] + ']', True
            return self.escaped_char(begin, True), False

        def group(self, flags, start, leading):
            number = None
            prefix = '(?:'
            kind = 'group'
            name = None
            if self.text[self.at:self.at + 1] == '?':
                self.at += 1
                char = self.text[self.at:self.at + 1]
                self.at += 1
                if char == 'P':
                    char = self.text[self.at:self.at + 1]
                    self.at += 1
                    if char == '<':
                        name = self.name('>', self.at)
                        if name in self.names:
                            fail(f'redefinition of group name {name!r} as group {self.groups + 1}; was group {self.names[name]}', self.at - len(name) - 1)
                    elif char == '=':
                        at = self.at
                        name = self.name(')', at)
                        if name not in self.names:
                            fail(f'unknown group name {name!r}', at)
                        return self.backreference(self.names[name], at, flags)
                    else:
                        fail('unknown extension ?P' + char, start + 1)
                elif char == ':':
                    pass
                elif char == '>':
                    prefix = '(?>'
                elif char == '#':
                    end = self.text.find(')', self.at)
                    if end < 0:
                        fail('missing ), unterminated comment', start)
                    self.at = end + 1
                    return None
                elif char in ('=', '!'):
                    prefix, kind = '(?' + char, 'look'
                elif char == '<' and self.text[self.at:self.at + 1] in ('=', '!'):
                    prefix, kind = '(?<' + self.text[self.at], 'behind'
                    self.at += 1
                elif char == '(':
                    lacks('a conditional group `(?(...)...)` in a regular expression')
                elif char and (char in flag_letters or char == '-'):
                    return self.inline_flags(flags, start, leading)
                else:
                    fail('unknown extension ?' + (char + self.text[self.at:self.at + 1] if char == '<' else char), start + 1)
            else:
                name = ''
            if name is not None:
                self.groups += 1
                number = self.groups
                if name:
                    self.names[name] = number
                self.open.append(number)
                prefix = '('
                if number > 95:
                    lacks('more than 95 groups in a regular expression')
            text, least, most, captured = self.alternatives(flags, False)
            if self.at >= len(self.text):
                fail('missing ), unterminated subpattern', start)
            self.at += 1
            if number is not None:
                self.open.pop()
                self.widths[number] = (least, most)
                return f'(?P<{name}>{text})' if name and not self.shift else '(' + text + ')', least, most, True, 'group'
            if kind == 'behind' and least != most:
                fail('look-behind requires fixed-width pattern')
            if kind == 'behind' or kind == 'look':
                return prefix + text + ')', 0, 0, captured, 'anchor'
            return prefix + text + ')', least, most, captured, 'group'

        def name(self, closing, at):
            end = self.text.find(closing, at)
            if end < 0:
                fail('missing ' + closing + ', unterminated name', at)
            name = self.text[at:end]
            if not name:
                fail('missing group name', at)
            if name[0] in digits or not all(c in letters or c in digits or c == '_' for c in name):
                if all(ord(c) < 128 for c in name):
                    fail(f'bad character in group name {name!r}', at)
                lacks('a group name beyond ASCII in a regular expression')
            self.at = end + 1
            return name

        def inline_flags(self, flags, start, leading):
            self.at -= 1
            on, off, negative = 0, 0, False
            while self.at < len(self.text) and self.text[self.at] not in ':)':
                char = self.text[self.at]
                if char == '-' and not negative:
                    negative = True
                elif char in flag_letters:
                    if char == 'L':
                        lacks('the flag `L` in a regular expression')
                    if negative:
                        off |= flag_letters[char]
                    else:
                        on |= flag_letters[char]
                else:
                    fail('unknown flag', self.at)
                self.at += 1
            if self.at >= len(self.text):
                fail('missing -, : or )', self.at)
            closing = self.text[self.at]
            self.at += 1
            if closing == ')':
                if not leading:
                    fail('global flags not at the start of the expression', start)
                self.flags |= on
                return None
            inner = (flags | on) & ~off
            text, least, most, captured = self.alternatives(inner, False)
            if self.at >= len(self.text):
                fail('missing ), unterminated subpattern', start)
            self.at += 1
            mode = '(?i:' if inner & I else '(?-i:'
            return mode + text + ')', least, most, captured, 'group'

    def translate(pattern, flags, shift, exact):
        parser = Parser(pattern, flags, shift, exact)
        text, least, most, captured = parser.alternatives(flags, True)
        if parser.at < len(pattern):
            fail('unbalanced parenthesis', parser.at)
        if parser.flags & I and parser.flags & A:
            lacks('`re.ASCII` with `re.IGNORECASE`')
        if parser.flags & I:
            text = '(?i:' + text + ')'
        return text, least, parser

    def native(text):
        try:
            return __sre__.compile(text)
        except __sre__.PatternError as error:
            lacks('this regular expression: ' + str(error))

    class Match:
        # A match of `pattern`; group n of it is group n + shift of what the matcher found.
        def __init__(self, pattern, found, shift):
            self.re = pattern
            self.string = found.string
            self.pos = 0
            self.endpos = len(found.string)
            self.__found = found
            self.__shift = shift

        def __number(self, key):
            if isinstance(key, str):
                if key not in self.re._group_names:
                    raise IndexError('no such group')
                key = self.re._group_names[key]
            if not isinstance(key, int) or not 0 <= key <= self.re.groups:
                raise IndexError('no such group')
            return key + self.__shift

        def group(self, *keys):
            if len(keys) < 2:
                return self.__found.group(self.__number(keys[0] if keys else 0))
            return tuple([self.__found.group(self.__number(key)) for key in keys])

        def groups(self, default=None):
            return tuple([default if g is None else g for g in self.__found.groups()[self.__shift:]])

        def groupdict(self, default=None):
            found = self.__found
            values = {name: found.group(self.__number(name)) for name in self.re._group_names}
            return {name: default if value is None else value for name, value in values.items()}

        def start(self, key=0):
            return self.__found.start(self.__number(key))

        def end(self, key=0):
            return self.__found.end(self.__number(key))

        def span(self, key=0):
            return self.__found.span(self.__number(key))

        def expand(self, template):
            groups = self.groups()
            out = []
            for part in self.re.template(template):
                if isinstance(part, str):
                    out.append(part)
                else:
                    out.append(self.group() if part == 0 else groups[part - 1] or '')
            return ''.join(out)

        def __repr__(self):
            return '<re.Match object; span=' + repr(self.span()) + ', match=' + repr(self.group()) + '>'

    class Pattern:
        def __init__(self, pattern, flags):
            text, least, parser = translate(pattern, flags, 0, False)
            self.pattern = pattern
            self.flags = parser.flags if parser.flags & A else parser.flags | U
            self.groups = parser.groups
            self._group_names = dict(parser.names)
            self.__given = flags
            self.__least = least
            self.__lazy = parser.empty_first
            self.__boundary = parser.boundary and not parser.flags & A
            self.__plain = native(text)
            self.__exact = None
            self.__table = None

        def __repr__(self):
            names = [n for n, f in (('IGNORECASE', I), ('MULTILINE', M), ('DOTALL', S), ('VERBOSE', X), ('ASCII', A)) if self.flags & f]
            return 're.compile(' + repr(self.pattern)[:200] + ''.join((', ' if i == 0 else '|') + 're.' + n for i, n in enumerate(names)) + ')'

        def __eq__(self, other):
            return isinstance(other, Pattern) and (self.pattern, self.flags) == (other.pattern, other.flags)

        def __hash__(self):
            return hash((self.pattern, self.flags))

        def __of(self, text):
            if not isinstance(text, str):
                if isinstance(text, bytes):
                    raise TypeError('cannot use a string pattern on a bytes-like object')
                raise TypeError(f"expected string or bytes-like object, got '{type(text).__name__}'")
            if self.__boundary and not all(ord(c) < 128 for c in text):
                if self.__exact is None:
                    self.__exact = native(translate(self.pattern, self.__given, 0, True)[0])
                return self.__exact
            return self.__plain

        def __run(self, how, text, limits):
            if limits:
                lacks('a position (`pos`) for matching a regular expression')
            matcher = self.__of(text)
            try:
                if how == 0:
                    found = matcher.search(text)
                elif how == 1:
                    found = matcher.match(text)
                else:
                    found = matcher.fullmatch(text)
            except __sre__.PatternError as error:
                lacks('this regular expression: ' + str(error))
            return None if found is None else Match(self, found, 0)

        def search(self, string, *limits):
            return self.__run(0, string, limits)

        def match(self, string, *limits):
            return self.__run(1, string, limits)

        def fullmatch(self, string, *limits):
            return self.__run(2, string, limits)

        def spans(self, text):
            # Start, end and groups (None where a group took no part) of every match.
            matcher = self.__of(text)
            try:
                if self.__least > 0:
                    return [(m.start(), m.end(), m.groups(), (m, 0)) for m in matcher.finditer(text)]
                if self.__lazy:
                    lacks('going on after a match of a regular expression that may prefer to match nothing')
                exact = self.__boundary and not all(ord(c) < 128 for c in text)
                if self.__table is None or self.__table[0] != exact:
                    inner = translate(self.pattern, self.__given, 1, exact)[0]
                    self.__table = (exact, native('(?=(' + inner + '))'))
                found = []
                at, advance = 0, False
                for m in self.__table[1].finditer(text):
                    start, end = m.start(), m.end(1)
                    if start < at or (advance and start == at and end == start):
                        continue
                    found.append((start, end, m.groups()[1:], (m, 1)))
                    at, advance = end, start == end
                return found
            except __sre__.PatternError as error:
                lacks('this regular expression: ' + str(error))

        def finditer(self, string, *limits):
            if limits:
                lacks('a position (`pos`) for matching a regular expression')
            return iter([Match(self, s[3][0], s[3][1]) for s in self.spans(string)])

        def findall(self, string, *limits):
            if limits:
                lacks('a position (`pos`) for matching a regular expression')
            out = []
            for start, end, groups, _ in self.spans(string):
                if self.groups == 0:
                    out.append(string[start:end])
                elif self.groups == 1:
                    out.append(groups[0] or '')
                else:
                    out.append(tuple([g or '' for g in groups]))
            return out

        def split(self, string, maxsplit=0):
            out = []
            at = 0
            if maxsplit >= 0:
                for n, (start, end, groups, _) in enumerate(self.spans(string)):
                    if maxsplit and n >= maxsplit:
                        break
                    out.append(string[at:start])
                    out.extend(groups)
                    at = end
            out.append(string[at:])
            return out

        def subn(self, repl, string, count=0):
            if isinstance(repl, str):
                parts = [repl] if '\\' not in repl else self.template(repl)
                make = None
            elif isinstance(repl, (int, float, bytes, list, tuple, dict)) or repl is None:
                raise TypeError(f"decoding to str: need a bytes-like object, {type(repl).__name__} found")
            else:
                make = repl
            out = []
            at = made = 0
            for start, end, groups, found in self.spans(string):
                if count and made >= count:
                    break
                out.append(string[at:start])
                if make is not None:
                    new = make(Match(self, found[0], found[1]))
                    if not isinstance(new, str):
                        if new is not None:
                            raise TypeError(f'sequence item {len(out)}: expected str instance, {type(new).__name__} found')
                        new = ''
                    out.append(new)
                else:
                    for part in parts:
                        if isinstance(part, str):
                            out.append(part)
                        elif part == 0:
                            out.append(string[start:end])
                        else:
                            out.append(groups[part - 1] or '')
                at = end
                made += 1
            out.append(string[at:])
            return ''.join(out), made

        def sub(self, repl, string, count=0):
            return self.subn(repl, string, count)[0]

        def template(self, text):
            parts = []
            plain = []
            at = 0
            def add(number):
                parts.append(''.join(plain))
                parts.append(number)
                plain.clear()
            def known(number, where):
                if number > self.groups:
                    fail(f'invalid group reference {number}', where)
                add(number)
            while at < len(text):
                char = text[at]
                at += 1
                if char != '\\':
                    plain.append(char)
                    continue
                if at >= len(text):
                    fail('bad escape (end of pattern)', at - 1)
                char = text[at]
                at += 1
                if char == 'g':
                    if text[at:at + 1] != '<':
                        fail('missing <', at)
                    end = text.find('>', at)
                    if end < 0:
                        fail('missing >, unterminated name', at + 1)
                    name = text[at + 1:end]
                    if not name:
                        fail('missing group name', at + 1)
                    if all(c in digits for c in name):
                        known(int(name), at + 1)
                    elif name[0] in digits or not all(c in letters or c in digits or c == '_' for c in name):
                        fail(f'bad character in group name {name!r}', at + 1)
                    elif name in self._group_names:
                        add(self._group_names[name])
                    else:
                        raise IndexError(f'unknown group name {name!r}')
                    at = end + 1
                elif char == '0':
                    number = char
                    while len(number) < 3 and text[at:at + 1] and text[at] in '01234567':
                        number += text[at]
                        at += 1
                    plain.append(octal(int(number, 8)))
                elif char in digits:
                    begin = at - 1
                    if text[at:at + 1] and text[at] in digits:
                        if char in '01234567' and text[at] in '01234567' and text[at + 1:at + 2] and text[at + 1] in '01234567':
                            code = int(text[begin:at + 2], 8)
                            if code > 255:
                                fail('octal escape value \\' + text[begin:at + 2] + ' outside of range 0-0o377', begin - 1)
                            plain.append(octal(code))
                            at += 2
                            continue
                        at += 1
                    known(int(text[begin:at]), begin)
                elif char in 'abfnrtv':
                    plain.append({'a': '\x07', 'b': '\x08', 'f': '\x0c', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\x0b'}[char])
                elif char in letters:
                    fail('bad escape \\' + char, at - 2)
                elif char == '\\':
                    plain.append(char)
                else:
                    plain.append('\\' + char)
            parts.append(''.join(plain))
            return parts

    def octal(code):
        if 28 <= code <= 31:
            lacks('one of the characters U+001C to U+001F from a template')
        return chr(code)

    known = {}

    def compile(pattern, flags=0):
        flags = as_number(flags)
        if isinstance(pattern, Pattern):
            if flags:
                raise ValueError('cannot process flags argument with a compiled pattern')
            return pattern
        if isinstance(pattern, bytes):
            lacks('a regular expression of bytes')
        if not isinstance(pattern, str):
            raise TypeError('first argument must be string or compiled pattern')
        found = known.get((pattern, flags))
        if found is None:
            if len(known) > 500:
                known.clear()
            found = known[(pattern, flags)] = Pattern(pattern, flags)
        return found

    def search(pattern, string, flags=0):
        return compile(pattern, flags).search(string)

    def match(pattern, string, flags=0):
        return compile(pattern, flags).match(string)

    def fullmatch(pattern, string, flags=0):
        return compile(pattern, flags).fullmatch(string)

    def findall(pattern, string, flags=0):
        return compile(pattern, flags).findall(string)

    def finditer(pattern, string, flags=0):
        return compile(pattern, flags).finditer(string)

    def split(pattern, string, maxsplit=0, flags=0):
        return compile(pattern, flags).split(string, maxsplit)

    def sub(pattern, repl, string, count=0, flags=0):
        return compile(pattern, flags).sub(repl, string, count)

    def subn(pattern, repl, string, count=0, flags=0):
        return compile(pattern, flags).subn(repl, string, count)

    def escape(pattern):
        if not isinstance(pattern, str):
            lacks('a regular expression of bytes')
        special = '()[]{}?*+-|^$\\.&~# \t\n\r\x0b\x0c'
        return ''.join(['\\' + c if c in special else c for c in pattern])

    def purge():
        known.clear()

    return __make_module__('re', {
        'compile': compile, 'search': search, 'match': match, 'fullmatch': fullmatch, 'findall': findall,
        'finditer': finditer, 'split': split, 'sub': sub, 'subn': subn, 'escape': escape, 'purge': purge,
        'Pattern': Pattern, 'Match': Match, 'error': __sre__.PatternError, 'PatternError': __sre__.PatternError,
        'I': RegexFlag(I), 'IGNORECASE': RegexFlag(I), 'M': RegexFlag(M), 'MULTILINE': RegexFlag(M),
        'S': RegexFlag(S), 'DOTALL': RegexFlag(S), 'X': RegexFlag(X), 'VERBOSE': RegexFlag(X),
        'A': RegexFlag(A), 'ASCII': RegexFlag(A), 'U': RegexFlag(U), 'UNICODE': RegexFlag(U),
        '_kind': RegexFlag, '_flag': flag, '_number': as_number,
    })

__re__ = __re_module__()
