def __sys_module__():
    import sys
    return __make_module__('sys', {
        'stdout': sys.stdout, 'stderr': sys.stderr, 'version_info': sys.version_info,
        'maxsize': 9223372036854775807, 'maxunicode': 1114111,
    })

__sys__ = __sys_module__()
