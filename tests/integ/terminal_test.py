#!/usr/bin/python3
# limit: 300 s
"""A command under a terminal: size, signals, job control, and what it must not
do to the caller's terminal."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import box as b
from box import (Failure, PINFOLD, below, case, check, equal, find_below, main,
                 patient, wait_for, within)


class Terminal:
    """A terminal with a program in a session of its own."""

    def __init__(self, box, argv, rows=30, cols=90, env=None):
        self.box = box
        self.master, self.slave = pty.openpty()
        self.resize(rows, cols)
        self.before = termios.tcgetattr(self.slave)

        def lead():
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = box.spawn(argv, stdin=self.slave, stdout=self.slave,
                                 stderr=self.slave, preexec_fn=lead,
                                 env=env or box.env)
        self.text = b''

    def resize(self, rows, cols):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ,
                    struct.pack('HHHH', rows, cols, 0, 0))

    def type(self, text):
        os.write(self.master, text)

    def expect(self, text, seconds=20):
        """Waits until text comes, and forgets what came up to there."""
        end = time.monotonic() + patient(seconds)
        while text not in self.text:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.master], [], [], left)[0]:
                raise Failure(f'{text!r} did not come: {self.text[-400:]!r}')
            self.text += os.read(self.master, 65536)
        before, self.text = self.text.split(text, 1)
        return before

    def wait(self, seconds=20):
        """The status; what is printed meanwhile is kept in text."""
        end = time.monotonic() + patient(seconds)
        while self.process.poll() is None:
            if time.monotonic() > end:
                raise Failure(f'does not end: {self.text[-400:]!r}')
            if select.select([self.master], [], [], 0.02)[0]:
                self.text += os.read(self.master, 65536)
        while select.select([self.master], [], [], 0.05)[0]:
            self.text += os.read(self.master, 65536)
        return self.process.returncode

    def restored(self):
        return termios.tcgetattr(self.slave) == self.before

    def typed_into(self):
        """What waits in our slave's queue, as if somebody had typed it."""
        flags = fcntl.fcntl(self.slave, fcntl.F_GETFL)
        fcntl.fcntl(self.slave, fcntl.F_SETFL, flags | os.O_NONBLOCK)
        try:
            return os.read(self.slave, 100)
        except BlockingIOError:
            return b''

    def close(self):
        for fd in (self.master, self.slave):
            os.close(fd)


def run_in(box, *words, **more):
    return Terminal(box, [PINFOLD, 'run', *words], **more)


def raw(box, terminal):
    wait_for(lambda: not termios.tcgetattr(terminal.slave)[3] & termios.ICANON,
             what='raw mode')


@case
def a_caller_with_a_terminal_gets_one(box):
    t = run_in(box, '--', 'sh', '-c',
               'for i in 0 1 2; do test -t $i && echo tty$i; done; tty; '
               'echo $TERM; exit 6')
    equal(t.wait(), 6)
    words = t.text.decode().split()
    equal(words[:3], ['tty0', 'tty1', 'tty2'])
    check(words[3].startswith('/dev/pts/'), words)
    equal(words[4], 'xterm')
    check(t.restored(), 'the terminal is not as it was')
    t.close()


@case
def with_capital_t_the_command_gets_pipes(box):
    t = run_in(box, '-T', '--', 'sh', '-c',
               'for i in 0 1 2; do test -t $i && echo tty$i; done; echo none')
    equal(t.wait(), 0)
    equal(t.text, b'none\r\n')
    t.close()


@case
def with_t_and_without_a_terminal_the_command_gets_one(box):
    r = box.run('-t', '--', 'sh', '-c', 'test -t 1 && stty -a >/dev/null && '
                'echo yes').expect(0)
    equal(r.out, b'yes\r\n')


@case
def the_terminal_is_not_the_callers(box):
    t = run_in(box, '--', 'python3', '-c',
               'import os; s=os.fstat(0); print(s.st_dev,s.st_rdev)')
    equal(t.wait(), 0)
    st = os.fstat(t.slave)
    check(t.text.decode().split()[0] != str(st.st_dev), 'the same device')
    t.close()


@case
def the_window_size_is_passed_on_and_changes_are_told(box):
    t = run_in(box, '--', 'sh', '-c',
               'trap "stty size; echo told" WINCH; stty size; echo ready; '
               'while :; do sleep 0.05; done', rows=33, cols=101)
    within(t.expect(b'ready'), b'33 101')
    for rows, cols in ((44, 122), (10, 20)):
        t.resize(rows, cols)
        within(t.expect(b'told'), b'%d %d' % (rows, cols))
    t.type(b'\x03')
    equal(t.wait(), 130)
    check(t.restored(), 'the terminal is not as it was')
    t.close()


@case
def control_c_interrupts_the_command_alone(box):
    t = run_in(box, '--', 'sh', '-c',
               'trap "echo caught; exit 8" INT; echo ready; '
               'while :; do sleep 0.05; done')
    t.expect(b'ready')
    t.type(b'\x03')
    equal(t.wait(), 8)
    within(t.text, b'caught')
    t.close()


@case
def control_backslash_quits_the_command(box):
    t = run_in(box, '--', 'sh', '-c', 'echo ready; exec sleep 3100')
    t.expect(b'ready')
    t.type(b'\x1c')
    equal(t.wait(), 131)
    check(t.restored(), 'the terminal is not as it was')
    t.close()


@case
def control_d_ends_the_input(box):
    t = run_in(box, '--', 'sh', '-c', 'echo ready; cat; echo end')
    t.expect(b'ready')
    raw(box, t)
    t.type(b'line\n\x04')
    equal(t.wait(), 0)
    within(t.text, b'line\r\nline\r\nend')
    t.close()


@case
def what_is_typed_is_echoed_once_by_the_inner_terminal(box):
    t = run_in(box, '--', 'sh', '-c', 'echo ready; read x; echo "<$x>"; '
               'stty -echo; echo quiet; read y; echo "<$y>"')
    t.expect(b'ready')
    raw(box, t)
    t.type(b'hello\n')
    equal(t.expect(b'<hello>').count(b'hello'), 1)
    t.expect(b'quiet')
    t.type(b'secret\n')
    equal(t.expect(b'<secret>').count(b'secret'), 0)
    equal(t.wait(), 0)
    t.close()


def shell(box):
    """An interactive bash as the outer shell."""
    env = {**box.env, 'PS1': 'OUTER> ', 'HISTFILE': '/dev/null',
           'PINFOLD': PINFOLD, 'INPUTRC': '/dev/null'}
    t = Terminal(box, ['bash', '--norc', '--noprofile', '--noediting', '-i'],
                 env=env)
    t.expect(b'OUTER> ')
    return t


@case
def control_z_stops_the_run_and_fg_continues_it(box):
    t = shell(box)
    t.type(b'"$PINFOLD" run -- sh -c \'echo in"side"; read x; echo "<$x>"; '
           b'exit 5\'\n')
    t.expect(b'inside\r\n')
    raw(box, t)
    t.type(b'\x1a')
    t.expect(b'Stopped')
    t.expect(b'OUTER> ')
    check(termios.tcgetattr(t.slave)[3] & termios.ICANON, 'still raw')
    sleeping = [p for p in below(t.process.pid) if b.command_of(p) == 'sh']
    check(sleeping, 'the command is gone')
    t.type(b'jobs; echo out"side"\n')
    within(t.expect(b'outside\r\n'), b'Stopped')
    t.expect(b'OUTER> ')
    t.type(b'fg\n')
    t.expect(b'run --')
    raw(box, t)
    t.type(b'again\n')
    t.expect(b'<again>')
    t.expect(b'OUTER> ')
    t.type(b'echo status $?\n')
    t.expect(b'status 5')
    # A second time, and killed while it is stopped.
    t.type(b'"$PINFOLD" run -- sh -c \'echo in"side"; sleep 3101\'\n')
    t.expect(b'inside\r\n')
    # A shell that has just forked (vfork) cannot be stopped until its child
    # runs, in any terminal.
    wait_for(lambda: find_below(t.process.pid, 'sleep'), what='sleep')
    raw(box, t)
    t.type(b'\x1a')
    t.expect(b'Stopped')
    t.expect(b'OUTER> ')
    seen = below(t.process.pid)
    t.type(b'kill -9 %1; wait; echo kil"led"\n')
    t.expect(b'killed\r\n')
    wait_for(lambda: not [p for p, s in seen.items() if b.start_time(p) == s
                          and p != t.process.pid], b.GONE_S,
             'the end of a stopped task')
    t.type(b'exit\n')
    t.wait()
    t.close()


@case
def sigtstp_from_outside_stops_the_run_and_sigcont_continues_it(box):
    t = run_in(box, '--', 'sh', '-c', 'echo ready; read x; echo "<$x>"')
    t.expect(b'ready')
    raw(box, t)
    t.process.send_signal(signal.SIGTSTP)

    def stopped():
        with open(f'/proc/{t.process.pid}/stat', encoding='ascii') as f:
            return f.read().rsplit(')', 1)[1].split()[0] == 'T'

    wait_for(stopped, what='the stop')
    check(termios.tcgetattr(t.slave)[3] & termios.ICANON, 'still raw')
    t.process.send_signal(signal.SIGCONT)
    raw(box, t)
    t.type(b'x\n')
    t.expect(b'<x>')
    equal(t.wait(), 0)
    t.close()


@case
def a_job_in_the_background_goes_on_and_may_come_to_the_front(box):
    t = shell(box)
    t.type(b'"$PINFOLD" run -- sh -c \'echo in"side"; read x; '
           b'echo "<$x>"\' &\n')
    t.expect(b'inside\r\n')
    t.type(b'jobs; echo out"side"\n')
    within(t.expect(b'outside\r\n'), b'Running')
    t.type(b'fg\n')
    t.expect(b'run --')
    t.type(b'again\n')
    t.expect(b'<again>')
    t.expect(b'OUTER> ')
    t.type(b'exit\n')
    t.wait()
    t.close()


@case
def an_inner_shell_has_job_control_of_its_own(box):
    t = run_in(box, '--', 'bash', '--norc', '--noprofile', '--noediting', '-i')
    t.expect(b'$ ')
    t.type(b'PS1="INNER> "\n')
    t.expect(b'INNER> ')
    t.expect(b'INNER> ', 20) if b'INNER> ' in t.text else None
    # What it prints is not what was typed: it runs, then.
    t.type(b'sh -c "echo u""p; exec cat"\n')
    t.expect(b'up\r\n')
    t.type(b'\x1a')
    t.expect(b'Stopped')
    t.expect(b'INNER> ')
    t.type(b'fg\n')
    t.expect(b'exec cat')
    t.type(b'through\n')
    t.expect(b'through\r\nthrough')
    t.type(b'\x03')
    t.expect(b'INNER> ')
    t.type(b'exit 4\n')
    equal(t.wait(), 4)
    check(b'no job control' not in t.text, 'there is no job control')
    t.close()


@case
def the_terminal_is_restored_whatever_dies(box):
    """The caller's mode is raw meanwhile, and again as it was afterwards."""
    for victim in ('command', 'init', 'keeper'):
        t = run_in(box, '--', 'sh', '-c', 'stty raw -echo; echo ready; '
                   'exec sleep 3102')
        t.expect(b'ready')
        raw(box, t)
        name = {'command': 'sleep', 'init': 'pinfold-init',
                'keeper': 'pinfold-keeper'}[victim]
        pid = wait_for(lambda n=name: find_below(t.process.pid, n), what=name)
        seen = below(t.process.pid)
        os.kill(pid, signal.SIGKILL)
        check(t.wait() != 0, victim)
        check(t.restored(), f'{victim}: the terminal is not as it was')
        wait_for(lambda: not [p for p, s in seen.items()
                              if b.start_time(p) == s], b.GONE_S, 'the end')
        t.close()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT,
                   signal.SIGQUIT):
        t = run_in(box, '--grace', '500ms', '--', 'sh', '-c',
                   'echo ready; exec sleep 3103')
        t.expect(b'ready')
        raw(box, t)
        t.process.send_signal(number)
        equal(t.wait(), 128 + number)
        check(t.restored(), f'{number}: the terminal is not as it was')
        t.close()


@case
def a_time_out_restores_the_terminal_too(box):
    t = run_in(box, '--timeout', '1s', '--', 'sh', '-c',
               'stty raw; echo ready; exec sleep 3104')
    equal(t.wait(), 124)
    check(t.restored(), 'the terminal is not as it was')
    within(t.text, b'limit: wall')
    t.close()


@case
def keystrokes_cannot_be_injected(box):
    """PEERS l: TIOCSTI, with high bits set too, and TIOCLINUX."""
    script = '''
import errno, fcntl, os
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
libc = __import__("ctypes").CDLL(None, use_errno=True)
import ctypes
for where in ("/dev/tty", 0, 1, 2):
    fd = os.open(where, os.O_RDWR) if where == "/dev/tty" else where
    for high in (0, 1 << 32, 0xffffffff << 32):
        for request, data in ((TIOCSTI, b"X"), (TIOCLINUX, b"\\x03")):
            ctypes.set_errno(0)
            r = libc.ioctl(ctypes.c_int(fd), ctypes.c_ulong(request | high),
                           ctypes.c_char_p(data))
            print("refused" if r < 0 else "DONE", flush=True)
'''
    for words in (['-t'], ['-T']):
        t = run_in(box, *words, '--', 'python3', '-c', script)
        t.wait()
        check(b'DONE' not in t.text, t.text[-300:])
        if words == ['-t']:
            equal(t.text.count(b'refused'), 24)
        equal(t.typed_into(), b'')
        t.close()


@case
def a_background_run_does_not_take_the_terminal(box):
    t = shell(box)
    t.type(b'"$PINFOLD" run -n -- sh -c \'echo in"side"\' & wait; '
           b'echo out"side"\n')
    t.expect(b'outside\r\n')
    check(termios.tcgetattr(t.slave)[3] & termios.ICANON, 'raw')
    t.type(b'exit\n')
    t.wait()
    t.close()


@case
def a_full_screen_of_output_passes_the_terminal_whole(box):
    t = run_in(box, '--', 'sh', '-c', 'i=0; while [ $i -lt 5000 ]; do '
               'echo line $i; i=$((i+1)); done')
    equal(t.wait(), 0)
    lines = t.text.decode().split('\r\n')
    equal(lines[:-1], [f'line {i}' for i in range(5000)])
    t.close()


@case
def an_exec_in_a_started_sandbox_gets_a_terminal_too(box):
    task = box.start()
    t = Terminal(box, [PINFOLD, 'exec', task, '--', 'sh', '-c',
                       'tty; stty size; echo ready; read x; echo "<$x>"; '
                       'exit 3'], rows=20, cols=40)
    within(t.expect(b'ready'), b'20 40')
    raw(box, t)
    t.type(b'y\n')
    t.expect(b'<y>')
    equal(t.wait(), 3)
    check(t.restored(), 'the terminal is not as it was')
    t.close()
    box.kill(task).expect(0)


if __name__ == '__main__':
    sys.exit(main())
