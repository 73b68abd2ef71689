def __time_module__():
    class struct_time:
        def __init__(self, parts):
            self.__parts = tuple(parts)
            self.tm_year = parts[0]
            self.tm_mon = parts[1]
            self.tm_mday = parts[2]
            self.tm_hour = parts[3]
            self.tm_min = parts[4]
            self.tm_sec = parts[5]
            self.tm_wday = parts[6]
            self.tm_yday = parts[7]
            self.tm_isdst = parts[8]
        def __iter__(self):
            return iter(self.__parts)
        def __eq__(self, other):
            return tuple(self) == tuple(other)
        def __repr__(self):
            names = ['tm_year', 'tm_mon', 'tm_mday', 'tm_hour', 'tm_min', 'tm_sec', 'tm_wday', 'tm_yday', 'tm_isdst']
            return 'time.struct_time(' + ', '.join([n + '=' + str(p) for n, p in zip(names, self.__parts)]) + ')'
    def time():
        return __host_now__() / 1000000
    def time_ns():
        return __host_now__() * 1000
    def sleep(seconds):
        if not isinstance(seconds, (int, float)):
            raise TypeError('sleep() needs a number')
        if seconds < 0:
            raise ValueError('sleep length must be non-negative')
        __host_sleep__(int(seconds * 1000000))
    def moment(seconds):
        import datetime
        whole = __host_now__() // 1000000 if seconds is None else int(seconds // 1)
        return datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=whole)
    def of(found, isdst):
        import datetime
        first = datetime.datetime(found.year, 1, 1)
        return struct_time((found.year, found.month, found.day, found.hour, found.minute, found.second, found.weekday(), (found - first).days + 1, isdst))
    def gmtime(seconds=None):
        return of(moment(seconds), 0)
    def strftime(form, parts=None):
        import datetime
        found = moment(None) if parts is None else datetime.datetime(*list(parts)[:6])
        for letter in form.split('%')[1:]:
            if letter[:1] and letter[0] not in 'YmdHMSyIpjaAbBT ':
                raise NotImplementedError('embedded Python: `%' + letter[0] + '` in `time.strftime`')
        return found.strftime(form)
    return __make_module__('time', {
        'time': time, 'time_ns': time_ns, 'sleep': sleep, 'perf_counter': time, 'monotonic': time, 'process_time': time,
        'perf_counter_ns': time_ns, 'monotonic_ns': time_ns, 'gmtime': gmtime, 'localtime': gmtime, 'strftime': strftime,
        'struct_time': struct_time,
    })

__time__ = __time_module__()
