#!/usr/bin/env python3
"""pinfold diff: as a patch that git takes, as a tree, by path; and that nothing
the command wrote into a file or a name does anything to who looks at it."""
import json
import os
import pty
import resource
import shutil
import subprocess
import sys
import time

from box import PINFOLD, case, check, equal, main, within, Skip

GIT = shutil.which('git')
NUMBERS = ''.join(f'{i}\n' for i in range(1, 21))


def plant(box):
    box.write('kept', NUMBERS)
    box.write('gone', NUMBERS)
    box.write('mode', 'm\n')
    box.write('old/one', 'one ' * 20)
    box.write('old/two', 'two ' * 20)
    box.write('bin', b'a\0b')
    box.write('name with blank', 'x\n')
    os.symlink('kept', f'{box.source}/link')


CHANGE = r'''
sed -i 's/^10$/ten/' kept
rm gone
chmod 755 mode
mv old new
printf 'c\0d\0' >bin
echo y >>'name with blank'
ln -sfn gone link
mkdir -p deep/er
printf 'no newline' >deep/er/file
: >empty
printf 'x\n' >"$(printf 'odd\nname\303\244\377')"
'''


def changed(box, *words, script=CHANGE):
    return box.sh(script, '--json', *words).expect(0).json()['id']


def patch(box, *words):
    return box.pinfold('diff', '--patch', *words).expect(0).out


def tree_of(top):
    found = {}
    for folder, dirs, files in os.walk(os.fsencode(top)):
        dirs[:] = [d for d in dirs if d != b'.git']
        for name in files + [d for d in dirs
                             if os.path.islink(os.path.join(folder, d))]:
            path = os.path.join(folder, name)
            at = os.path.relpath(path, os.fsencode(top))
            if os.path.islink(path):
                found[at] = ('link', os.readlink(path))
            else:
                with open(path, 'rb') as f:
                    found[at] = (os.stat(path).st_mode & 0o100, f.read())
    return found


def git_applies(box, mode):
    """The patch brings a copy of the source to what the command saw."""
    if not GIT:
        raise Skip('git is not there')
    plant(box)
    os.chmod(f'{box.source}/mode', 0o644)
    task = changed(box, '--workspace', mode,
                   script=CHANGE.replace(r"printf 'c\0d\0' >bin", ''))
    copy = f'{box.top}/copy'
    shutil.copytree(box.source, copy, symlinks=True)
    subprocess.run([GIT, 'init', '-q', copy], check=True)
    text = patch(box, task)
    done = subprocess.run([GIT, 'apply', '-'], input=text, cwd=copy,
                          stderr=subprocess.PIPE, check=False)
    equal(done.returncode, 0, done.stderr)
    twin = f'{box.top}/twin'
    shutil.copytree(box.source, twin, symlinks=True)
    subprocess.run(['sh', '-c', CHANGE.replace(r"printf 'c\0d\0' >bin", '')],
                   cwd=twin, check=True)
    equal(tree_of(copy), tree_of(twin))
    back = subprocess.run([GIT, 'apply', '-R', '-'], input=text, cwd=copy,
                          stderr=subprocess.PIPE, check=False)
    equal(back.returncode, 0, back.stderr)
    equal(tree_of(copy), tree_of(box.source))


@case
def git_applies_the_patch_of_an_overlay(box):
    git_applies(box, 'overlay')


@case
def git_applies_the_patch_of_a_copy(box):
    git_applies(box, 'copy')


@case
def binary_files_are_told_with_their_sizes(box):
    plant(box)
    text = patch(box, changed(box), 'bin')
    equal(text, b'# bin: binary, 3 bytes -> 4 bytes\n'
          b'diff --git a/bin b/bin\nindex 0000000..0000000\n'
          b'Binary files a/bin and b/bin differ\n')
    if GIT:
        done = subprocess.run([GIT, 'apply', '--check', '-'], input=text,
                              cwd=box.source, stderr=subprocess.PIPE,
                              check=False)
        check(done.returncode != 0, 'git takes a patch without its content')


@case
def moved_files_are_found_by_their_content(box):
    plant(box)
    task = changed(box)
    lines = box.pinfold('diff', task).expect(0).out.decode(
        errors='replace').splitlines()
    check('A  new/one  moved from old/one' in lines, lines)
    found = {c['path']: c for c in box.changes(task)['changes']}
    equal(found['new/two']['moved_from'], 'old/two')
    text = patch(box, task)
    within(text, b'rename from old/one\nrename to new/one\n')
    check(b'deleted file mode 100644\n--- a/old' not in text, text)


@case
def paths_choose_what_is_shown(box):
    plant(box)
    task = changed(box)
    equal(box.pinfold('diff', task, 'kept', 'deep/er').expect(0).out,
          b'A  deep/er/\nA  deep/er/file\nM  kept\n')
    # From a directory below, as the shell completes them; and absolute.
    below = f'{box.source}/old'
    equal(box.pinfold('diff', task, '../kept', cwd=below).expect(0).out,
          b'M  kept\n')
    equal(box.pinfold('diff', f'{box.source}/kept').expect(0).out,
          b'M  kept\n')
    r = box.pinfold('diff', task, 'nothing').expect(125)
    within(r.text(), f'{task} has changed nothing at "nothing"')
    r = box.pinfold('diff', '/etc').expect(125)
    within(r.text(), '"/etc" is neither a task nor in a directory that')
    r = box.pinfold('diff', task, '../../x').expect(125)
    within(r.text(), 'neither a task')


@case
def a_tree_shows_each_directory_once(box):
    task = changed(box, script='mkdir -p a/b; echo >a/b/c; echo >a.d; '
                   'echo >a/e; mkdir x; echo >z')
    equal(box.pinfold('diff', '--tree', task).expect(0).out.decode(),
          'A  a/\n    A  b/\n        A  c\n    A  e\nA  a.d\nA  x/\nA  z\n')
    for other in ('--stat', '--patch', '--json'):
        box.pinfold('diff', '--tree', other, task).expect(125)


@case
def what_lies_in_git_is_left_out_unless_it_is_named(box):
    box.write('.git/HEAD', 'ref: refs/heads/main\n')
    box.write('.git/config', '')
    box.write('f', 'x\n')
    task = changed(box, script='echo "[core]" >.git/config; echo y >f')
    text = patch(box, task)
    within(text, b'+y\n')
    within(text, f'# 1 change in .git is not shown: pinfold diff --patch '
           f'{task} .git\n'.encode())
    check(b'[core]' not in text, text)
    within(patch(box, task, '.git'), b'# .git/config held back: ')
    within(patch(box, task, '.git/config'), b'+[core]\n')


@case
def another_directory_is_left_out_unless_it_is_named(box):
    other = f'{box.top}/other'
    os.mkdir(other)
    os.chmod(other, 0o777)
    task = changed(box, '--write', other, script=f'echo x >{other}/f; echo >s')
    text = patch(box, task)
    within(text, f'# 1 change in {other} is not shown'.encode())
    equal(patch(box, task, f'{other}/f'),
          b'diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n'
          b'+++ b/f\n@@ -0,0 +1 @@\n+x\n')


def on_a_terminal(box, *words):
    """What diff writes to a terminal."""
    master, slave = pty.openpty()
    with box.spawn([PINFOLD, 'diff', *words], stdout=slave,
                   stderr=slave) as process:
        os.close(slave)
        out = b''
        try:
            while data := os.read(master, 65536):
                out += data
        except OSError:
            pass
        process.wait()
    os.close(master)
    return out


@case
def nothing_in_a_file_reaches_the_terminal_as_it_is(box):
    evil = ('\\033[2J\\033]0;title\\007 \\302\\233 \\342\\200\\256 \\r hidden '
            '\\b \\377')
    task = changed(box, script=f"printf '{evil}\\n' >f; "
                   f"printf x >\"$(printf 'n\\033[31m')\"")
    out = on_a_terminal(box, '--patch', task)
    text = out.replace(b'\r\n', b'\n')
    for colour in (b'\x1b[0m', b'\x1b[1m', b'\x1b[2m', b'\x1b[31m', b'\x1b[32m',
                   b'\x1b[33m', b'\x1b[m'):
        text = text.replace(colour, b'')
    for byte in (b'\x1b', b'\x07', b'\r', b'\b', b'\xff', b'\xe2\x80\xae',
                 b'\xc2\x9b'):
        check(byte not in text, text)
    within(text, b'\\x1b[2J')
    within(text, b'\\xe2\\x80\\xae')
    # For programs it is what it is.
    within(patch(box, task, 'f'), b'\x1b[2J')


@case
def a_patch_of_json_holds_each_text(box):
    plant(box)
    task = changed(box)
    found = json.loads(box.pinfold('diff', '--patch', '--json',
                                   task).expect(0).out)
    patches = {c['path']: c['patch'] for c in found['changes']}
    within(patches['kept'], '-10\n+ten\n')
    equal(patches['deep'], '# deep is a directory\n')
    equal(len(patches), len(found['changes']))


@case
def large_and_hard_files_take_bounded_time_and_memory(box):
    box.write('large', 'x')
    lines = ''.join(f'{(i * 7919) % 13}\n' for i in range(100000))
    box.write('hard', lines)
    box.write('small', 'x\n')
    task = changed(box, script='truncate -s 9M large; '
                   'awk \'{ print ($1 * 5 + NR * NR) % 13 }\' hard >h; '
                   'mv h hard; echo y >small')
    began = time.monotonic()
    text = patch(box, task)
    took = time.monotonic() - began
    within(text, b'# large: too large to be compared, 1 byte')
    within(text, b'-x\n+y\n')
    check(took < 60, f'{took:.1f} s')
    return f'{took:.1f} s'


@case
def files_that_change_while_they_are_looked_at_do_no_harm(box):
    box.write('f', 'x\n' * 1000)
    task = box.start()
    box.exec(task, 'sh', '-c',
             '(while :; do ln -sfn /etc/passwd g; rm -f g; mkfifo g; rm -f g; '
             'mkdir g; rmdir g; echo $RANDOM >g; seq 9 >f; rm f; '
             'seq 99999 >f; done) >/dev/null 2>&1 & sleep 1').expect(0)
    for _ in range(8):
        r = box.pinfold('diff', '--patch', task)
        check(r.status in (0, 125), r)
        check(b'root:' not in r.out, 'a file of the host is shown')
        check(r.seconds < 60, r.seconds)


@case
def many_names_and_deep_trees_are_shown_in_little_memory(box):
    task = changed(box, script='mkdir d; cd d; seq 20000 | xargs touch; '
                   'cd ..; d=x; for i in $(seq 200); do mkdir -p $d; '
                   'd=$d/yyyyyyyyyy; done; echo end >$d 2>/dev/null; :')

    def little():
        resource.setrlimit(resource.RLIMIT_AS, (192 << 20, 192 << 20))
    for how in ([], ['--tree'], ['--stat'], ['--patch']):
        with box.spawn([PINFOLD, 'diff', *how, task], stderr=None,
                       preexec_fn=little) as process:
            n = sum(1 for _ in process.stdout)
        equal(process.returncode, 0, how)
        check(n > 20000, f'{how}: {n} lines')


@case
def without_the_other_program_there_is_no_patch(box):
    """It is never compared in the program that has everything."""
    task = changed(box, script='echo x >f')
    programs = f'{box.top}/bin'
    os.mkdir(programs)
    for name in ('pinfold', 'pinfold-keeper'):
        shutil.copy(os.path.join(os.path.dirname(PINFOLD), name), programs)
    os.chmod(box.top, 0o755)
    r = box.finish(box.spawn([f'{programs}/pinfold', 'diff', '--patch', task]))
    equal(r.status, 125, r)
    within(r.text(), 'cannot start ')


if __name__ == '__main__':
    sys.exit(main())
