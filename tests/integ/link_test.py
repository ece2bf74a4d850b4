#!/usr/bin/python3
# limit: 120 s
"""Names that stand for something else: links that an agent leaves, those that the
host has put in a task's way since, and files under another name; and
what comes from many places at once."""
import os
import resource
import sys

from box import case, equal, main, within


def task_of(r):
    return r.json()['id']


def promote(box, *words, **more):
    return box.pinfold('promote', '--yes', *words, **more)


@case
def a_link_that_came_into_the_path_of_the_source_is_not_followed(box):
    source = f'{box.home}/in/src'
    os.makedirs(source)
    task = task_of(box.run('--json', '--', 'sh', '-c', 'echo n >new',
                           cwd=source))
    os.rename(f'{box.home}/in', f'{box.home}/was')
    os.makedirs(f'{box.home}/other/src')
    os.symlink('other', f'{box.home}/in')
    for words in (['promote', '--yes'], ['diff'],
                  ['discard', '--yes']):
        more = ['new'] if words[0] == 'discard' else []
        box.pinfold(*words, task, *more, cwd=box.home).expect(
            125, text='a link stands in this path now')
    equal(os.listdir(f'{box.home}/other/src'), [])
    os.unlink(f'{box.home}/in')
    os.rename(f'{box.home}/was', f'{box.home}/in')
    promote(box, task, cwd=box.home).expect(0)
    equal(os.listdir(source), ['new'])


@case
def links_are_shown_with_what_they_lead_to(box):
    box.write('readme', 'x')
    box.write('d/f', 'x')
    task = task_of(box.sh('ln -s /etc/passwd a; ln -sf ../up readme; '
                          'ln -s ../readme d/in; ln -s ../../x d/out; '
                          'ln -s "$(printf \'/\\033[2J\')" e; '
                          f'ln -s {box.source}/d/f own', '--json'))
    out = '  leads out of the source'
    lines = [f'A  a -> /etc/passwd{out}', 'A  d/in -> ../readme',
             f'A  d/out -> ../../x{out}', f'A  e -> "/\\x1b[2J"{out}',
             f'A  own -> {box.source}/d/f']
    shown = box.pinfold('diff', task).expect(0).out.decode().splitlines()
    equal([x for x in shown if 'readme (' not in x], lines)
    within('\n'.join(shown), f'(f0644 -> l0777) -> ../up{out}')
    found = {c['path']: c['target'] for c in box.changes(task)['changes']}
    equal(found['d/in'], '../readme')
    shown = promote(box, task).expect(0).out.decode().splitlines()
    equal(shown, lines + [f'M  readme -> ../up{out}'])


@case
def what_was_renamed_comes_again_after_an_undo(box):
    for name in ('f', 'dir/f', 'g'):
        box.write(name, name)
    task = task_of(box.sh('mv f h; mv dir/f dir/h; ln g k; echo x >>g',
                          '--json'))
    for _ in range(2):
        promote(box, task).expect(0)
        equal(sorted(x for x in os.listdir(box.source) if x[0] != '.'),
              ['dir', 'g', 'h', 'k'])
        equal(os.listdir(f'{box.source}/dir'), ['h'])
        box.pinfold('undo', task).expect(0)


@case
def many_grants_for_writing_come_under_a_small_limit_of_files(box):
    def limit():
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))

    words = []
    for i in range(150):
        os.makedirs(f'{box.home}/w/{i}')
        words += ['--write', f'{box.home}/w/{i}']
    task = task_of(box.sh(f'for i in {box.home}/w/*; do echo x >$i/f; done',
                          '--json', *words, preexec_fn=limit).expect(0))
    promote(box, task, preexec_fn=limit).expect(0, text='150 promoted')
    box.pinfold('undo', task, preexec_fn=limit).expect(0)


if __name__ == '__main__':
    sys.exit(main())
