"""What the tests share that kill pinfold at a call, or let one fail."""
import ctypes
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '../integ'))
import box  # noqa: E402

BUILD = os.environ.get('PINFOLD_BUILD') or os.path.dirname(
    os.path.dirname(box.PINFOLD))
INJECT = f'{BUILD}/tests/fault/inject'
ALL = os.environ.get('PINFOLD_ALL') == '1'
SEED = 20240301
HANG_S = 60
CLONE_NEWNS = 0x00020000


def private_mounts(*places):
    """As root: each of the places without anything of other callers."""
    if os.geteuid() != 0 or ctypes.CDLL(None).unshare(CLONE_NEWNS) < 0:
        return
    subprocess.run(['mount', '--make-rprivate', '/'], check=False,
                   stderr=subprocess.DEVNULL)
    for place in places:
        own = os.environ.get('TMPDIR', '/tmp') + '/' + place.replace('/', '-')
        os.makedirs(place, 0o700, exist_ok=True)
        os.makedirs(own, 0o700, exist_ok=True)
        subprocess.run(['mount', '--bind', own, place], check=True)


class Stand:
    """A box, and in self.task what the commands under test are told of."""

    task = None

    def __init__(self, b):
        if not os.path.exists(INJECT):
            raise box.Skip('inject knows the registers of x86-64 alone')
        self.box = b
        self.report = b.top + '/report'

    def run(self, *words):
        return self.box.pinfold(*words, self.task)

    def inject_into(self, command, *options):
        """(result, lines of the report) of a command; those of a hang end it."""
        argv = [INJECT, *options, '-o', self.report, '--', *command]
        r = self.box.finish(self.box.spawn(argv), timeout=HANG_S)
        with open(self.report, encoding='ascii') as f:
            return r, f.read().splitlines()

    def inject(self, option, arg, *words):
        options = [option, arg] if arg else [option]
        return self.inject_into([box.PINFOLD, *words, self.task], *options)

    def counts(self, *words, out=None):
        """[(role, call, how often)] of a command in which nothing fails."""
        r, lines = self.inject('-l', None, *words)
        r.expect(0, out)
        found = [line.split() for line in lines if line.startswith('count ')]
        return [(role, call, int(n)) for _, role, call, n in found]
