#!/usr/bin/python3
# limit: 300 s
"""Sources on other file systems than the state directory's: changed, looked at,
promoted and taken back, or refused by name."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from box import ROOT, Skip, case, check, equal, main, tree_state, within

IMAGE = {'xfs': ('mkfs.xfs', '-q'), 'btrfs': ('mkfs.btrfs', '-q')}
SCRIPT = '''
    set -e
    cat a sub/b; echo more >>a; rm sub/b; mkdir n; echo x >n/f; mv a a2
    ln -s a2 link; truncate -s 1M sparse
'''


def run(*argv):
    r = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       check=False)
    if r.returncode:
        raise Skip(f'{argv[0]}: {r.stdout.decode().strip()[:200]}')


class Mounted:
    """A new file system of that kind, with a source in it."""

    def __init__(self, box, kind):
        if not ROOT:
            raise Skip('only root can mount')
        self.top = tempfile.mkdtemp(dir=box.top)
        self.at = f'{self.top}/mnt'
        self.source = f'{self.at}/src'
        os.mkdir(self.at)
        getattr(self, kind if kind not in IMAGE else 'image')(kind)
        os.mkdir(self.source)
        os.mkdir(f'{self.source}/sub')
        for name in ('a', 'sub/b'):
            with open(f'{self.source}/{name}', 'w', encoding='ascii') as f:
                f.write(f'{name}\n')

    def image(self, kind):
        image = f'{self.top}/image'
        with open(image, 'wb') as f:
            f.truncate(400 << 20)
        run(*IMAGE[kind], image)
        run('mount', '-o', 'loop', image, self.at)

    def tmpfs(self, _):
        run('mount', '-t', 'tmpfs', 'none', self.at)

    def overlay(self, _):
        # On a tmpfs: what lies on an overlay cannot be an upper.
        base = f'{self.top}/base'
        os.mkdir(base)
        run('mount', '-t', 'tmpfs', 'none', base)
        for name in ('lower', 'upper', 'work'):
            os.mkdir(f'{base}/{name}')
        run('mount', '-t', 'overlay', 'none', '-o', f'lowerdir={base}/lower,'
            f'upperdir={base}/upper,workdir={base}/work', self.at)

    def fuse(self, _):
        image = f'{self.top}/image'
        with open(image, 'wb') as f:
            f.truncate(50 << 20)
        run('mke2fs', '-q', '-t', 'ext4', image)
        run('fuse2fs', image, self.at, '-o', 'fakeroot,allow_other')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for path in (self.at, f'{self.top}/base'):
            if os.path.ismount(path):
                subprocess.run(['umount', path], check=True)
        shutil.rmtree(self.top)


def task_of(box, system, *options):
    r = box.run('--source', system.source, '--json', *options, '--', 'sh', '-c',
                SCRIPT)
    equal(r.expect(0).out, b'a\nsub/b\n')
    return r.json()['id']


def texts(top):
    """Paths and contents: the times of directories follow what comes and goes."""
    return {path: what[:3] + what[4 + 2:] if what[0] & 0o170000 != 0o040000
            else what[:3] for path, what in tree_state(top).items()}


def there_and_back(box, kind):
    with Mounted(box, kind) as system:
        texts_before = texts(system.source)
        for mode in ('auto', 'copy'):
            before = tree_state(system.source)
            task = task_of(box, system, '--workspace', mode)
            equal(tree_state(system.source), before, mode)
            changed = {c['path'] for c in box.changes(task)['changes']}
            equal(changed, {'a', 'a2', 'sub/b', 'n', 'n/f', 'link', 'sparse'})
            box.pinfold('promote', '--yes', task).expect(0)
            with open(f'{system.source}/a2', encoding='ascii') as f:
                equal(f.read(), 'a\nmore\n', mode)
            check(not os.path.exists(f'{system.source}/sub/b'), mode)
            box.pinfold('undo', task).expect(0)
            box.pinfold('rm', '--changes', task).expect(0)
            equal(texts(system.source), texts_before, mode)


def write(path, text):
    with open(path, 'w', encoding='ascii') as f:
        f.write(text)


def refreshed(box, kind):
    """Files of the host that come, go and change, seen after a refresh."""
    with Mounted(box, kind) as system:
        top = system.source
        for name in ('c', 'd'):
            write(f'{top}/{name}', 'old\n')
        task = box.start('--source', top)
        box.exec(task, '--', 'sh', '-c', f'cd {top}; cat a sub/b c d n >/dev/null; '
                 'ls -R >/dev/null; echo task >>d')
        write(f'{top}/a~', 'host\n')
        os.rename(f'{top}/a~', f'{top}/a')
        shutil.rmtree(f'{top}/sub')
        write(f'{top}/sub', 'host\n')
        os.unlink(f'{top}/c')
        os.mkdir(f'{top}/c')
        write(f'{top}/c/n', 'host\n')
        write(f'{top}/n', 'host\n')
        box.pinfold('refresh', task).expect(0)
        r = box.exec(task, '--', 'sh', '-c', f'cd {top}; cat a sub c/n n d; '
                     'echo task >>a')
        equal(r.expect(0).out, b'host\n' * 4 + b'old\ntask\n')
        box.kill(task).expect(0)
        equal({c['path'] for c in box.changes(task)['changes']}, {'a', 'd'})
        box.pinfold('discard', '--yes', task).expect(0)


@case
def a_source_on_another_file_system_is_refreshed(box):
    tried = []
    for kind in ('xfs', 'btrfs', 'tmpfs', 'overlay', 'fuse'):
        try:
            refreshed(box, kind)
            tried.append(kind)
        except Skip:
            if not ROOT:
                raise
    check(tried, 'none could be mounted')
    return ', '.join(tried)


@case
def a_source_on_xfs(box):
    there_and_back(box, 'xfs')


@case
def a_source_on_btrfs(box):
    there_and_back(box, 'btrfs')


@case
def a_source_on_a_tmpfs(box):
    there_and_back(box, 'tmpfs')


@case
def a_source_on_an_overlay_as_in_a_container(box):
    there_and_back(box, 'overlay')


@case
def a_home_on_an_overlay_has_tool_chains_and_its_caches_are_told_of(box):
    with Mounted(box, 'overlay') as system:
        home = system.source
        os.makedirs(f'{home}/.cargo/bin')
        os.makedirs(f'{home}/.npm/_cacache')
        shutil.copy('/bin/true', f'{home}/.cargo/bin/my-tool')
        env = {**box.env, 'HOME': home,
               'PATH': f'{home}/.cargo/bin:{box.env["PATH"]}'}
        r = box.run('--json', '--', 'my-tool', env=env).expect(0)
        equal(r.json()['tools'], [f'{home}/.cargo/bin'])
        if r.json()['carried']:
            equal(r.json()['carried'], [f'{home}/.npm/_cacache'])
            return 'this kernel maps ids of overlays'
        within(r.text(), f'note: without {home}/.npm/_cacache: its file '
               'system cannot map ids')


@case
def a_source_on_fuse_is_worked_on_and_its_promotion_refused_by_name(box):
    with Mounted(box, 'fuse') as system:
        before = texts(system.source)
        task = task_of(box, system)
        r = box.pinfold('promote', '--yes', task).expect(125)
        within(r.text(), 'cannot exchange two files at once')
        within(r.text(), 'pinfold diff --patch')
        equal(texts(system.source), before)
        r = box.pinfold('diff', '--patch', task).expect(0)
        within(r.out, b'+more')


if __name__ == '__main__':
    sys.exit(main())
