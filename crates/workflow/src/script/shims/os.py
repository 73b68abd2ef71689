import os as __native_os__

def __os_module__():
    native = __native_os__
    return __make_module__('os', {
        'path': __os_path__, 'sep': '/', 'linesep': '\n', 'curdir': '.', 'pardir': '..', 'extsep': '.', 'altsep': None, 'pathsep': ':',
        'name': 'posix', 'devnull': '/dev/null', 'fspath': native.fspath,
    })

__os__ = __os_module__()
