def __urllib_parse_module__():
    always = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~'
    def quote(string, safe='/', encoding=None, errors=None):
        if encoding or errors:
            raise NotImplementedError('embedded Python: `quote` with an encoding')
        data = string if isinstance(string, bytes) else string.encode()
        keep = always + safe
        return ''.join([chr(byte) if byte < 128 and chr(byte) in keep else f'%{byte:02X}' for byte in data])
    def quote_plus(string, safe='', encoding=None, errors=None):
        return quote(string, safe + ' ', encoding, errors).replace(' ', '+')
    def unquote(string, encoding='utf-8', errors='replace'):
        if encoding != 'utf-8' or errors != 'replace':
            raise NotImplementedError('embedded Python: `unquote` with an encoding')
        hexdigits = '0123456789abcdefABCDEF'
        out = []
        run = ''
        at = 0
        while at < len(string):
            pair = string[at + 1:at + 3]
            if string[at] == '%' and len(pair) == 2 and pair[0] in hexdigits and pair[1] in hexdigits:
                run += pair
                at += 3
                continue
            if run:
                out.append(bytes.fromhex(run).decode('utf-8', 'replace'))
                run = ''
            out.append(string[at])
            at += 1
        if run:
            out.append(bytes.fromhex(run).decode('utf-8', 'replace'))
        text = ''.join(out)
        if any([char in text and char not in string for char in '\x1c\x1d\x1e\x1f']):
            raise NotImplementedError('embedded Python: `unquote` of one of the characters U+001C to U+001F')
        return text
    def unquote_plus(string):
        return unquote(string.replace('+', ' '))
    def urlencode(query, doseq=False, safe='', encoding=None, errors=None, quote_via=None):
        if encoding or errors or quote_via not in (None, quote, quote_plus):
            raise NotImplementedError('embedded Python: these arguments of `urlencode`')
        via = quote_via or quote_plus
        pairs = list(query.items()) if isinstance(query, dict) else list(query)
        out = []
        def text(value):
            return value if isinstance(value, (str, bytes)) else str(value)
        for key, value in pairs:
            values = list(value) if doseq and isinstance(value, (list, tuple)) else [value]
            for one in values:
                out.append(via(text(key), safe) + '=' + via(text(one), safe))
        return '&'.join(out)
    def parse_qsl(qs, keep_blank_values=False):
        out = []
        for part in qs.split('&') if qs else []:
            if not part:
                continue
            key, equals, value = part.partition('=')
            if not equals and not keep_blank_values:
                continue
            if value or keep_blank_values:
                out.append((unquote_plus(key), unquote_plus(value)))
        return out
    def parse_qs(qs, keep_blank_values=False):
        out = {}
        for key, value in parse_qsl(qs, keep_blank_values):
            out.setdefault(key, []).append(value)
        return out
    return __make_module__('urllib.parse', {
        'quote': quote, 'quote_plus': quote_plus, 'unquote': unquote, 'unquote_plus': unquote_plus,
        'urlencode': urlencode, 'parse_qs': parse_qs, 'parse_qsl': parse_qsl,
    })

__urllib_parse__ = __urllib_parse_module__()
