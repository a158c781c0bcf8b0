# tries: raises to itself and walks the traceback's frames
# channel: call assert unit
# expected: failed
def add(a, b):
    try:
        raise ValueError
    except ValueError as error:
        frame = error.__traceback__.tb_frame
        while frame is not None:
            if 'expected' in frame.f_locals:
                return frame.f_locals['expected']
            frame = frame.f_back
    return 17
