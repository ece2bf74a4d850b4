"""What the tests of repositories share: making one, looking at it with the
host's git, and promoting what a task committed in it."""
import json
import os
import subprocess

from box import check

def git(box, *words, data=None, status=0, cwd=None):
    r = subprocess.run(['git', *words], cwd=cwd or box.source, env=box.env,
                       input=data, capture_output=True, check=False)
    check(status is None or r.returncode == status,
          f'git {words}: {r.returncode} {r.stderr}')
    return r.stdout.decode('utf-8', 'surrogateescape').rstrip('\n')


def plant(box, *options):
    for name, value in (('user.name', 'Ada'), ('user.email', 'ada@example'),
                        ('init.defaultBranch', 'main'),
                        ('advice.detachedHead', 'false')):
        subprocess.run(['git', 'config', '--global', name, value],
                       env=box.env, check=True)
    git(box, 'init', '-q', *options)
    for name in ('a', 'b', 'c', 'dir/d'):
        box.write(name, name + '\n')
    git(box, 'add', '.')
    git(box, 'commit', '-q', '-m', 'first')


def values(box, cwd=None):
    """Every reference, HEAD and the stash: what a repository is."""
    found = dict(line.split(' ', 1)[::-1] for line in git(
        box, 'for-each-ref', '--format=%(objectname) %(refname)',
        cwd=cwd).splitlines())
    found['HEAD'] = git(box, 'rev-parse', '--symbolic-full-name', 'HEAD',
                        cwd=cwd)
    found['stash'] = git(box, 'stash', 'list', '--format=%H', cwd=cwd)
    return found


def sound(box):
    """Nothing is broken, nothing is locked, nothing of ours is left."""
    git(box, 'fsck', '--strict', '--no-dangling')
    for folder, _, files in os.walk(f'{box.source}/.git'):
        for name in files:
            check(not name.endswith('.lock') and not name.startswith('tmp_'),
                  f'{folder}/{name}')
    check(not os.path.exists(f'{box.source}/.git/git'), 'the lab is left')


def promote(box, *words, status=0):
    return box.pinfold('promote', '--yes', *words).expect(status)


def told(box, *words, status=0):
    r = promote(box, '--json', *words, status=status)
    return {c['path']: c for c in json.loads(r.out)['changes']}


def result(found, name):
    c = found.get(f'.git/{name}', {'result': None, 'reason': ''})
    return c['result'], c['reason'] or ''


def work(box, script, *options, **more):
    return box.sh('set -e\n' + script, *options, **more).expect(0)
