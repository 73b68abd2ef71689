def __string_module__():
    lower = 'abcdefghijklmnopqrstuvwxyz'
    upper = lower.upper()
    digits = '0123456789'
    punctuation = '!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~'
    whitespace = ' \t\n\r\x0b\x0c'
    def capwords(s, sep=None):
        return (sep or ' ').join([word.capitalize() for word in s.split(sep)])
    return __make_module__('string', {
        'ascii_lowercase': lower, 'ascii_uppercase': upper, 'ascii_letters': lower + upper, 'digits': digits,
        'hexdigits': digits + 'abcdefABCDEF', 'octdigits': '01234567', 'punctuation': punctuation,
        'whitespace': whitespace, 'printable': digits + lower + upper + punctuation + whitespace, 'capwords': capwords,
    })

__string__ = __string_module__()
