#!/bin/bash
# What the bash completion offers for words up to the cursor.
set -u

source "$PINFOLD_BUILD/man/pinfold.bash"
export XDG_STATE_HOME=$TMPDIR
failed=0

# offers SENTENCE EXPECTED WORD...: the last word is being completed.
offers() {
	local sentence=$1 expected=$2
	shift 2
	COMP_WORDS=(pinfold "$@")
	COMP_CWORD=$#
	_pinfold
	if [[ " ${COMPREPLY[*]} " == *" $expected "* ]]; then
		echo "ok - $sentence"
	else
		echo "not ok - $sentence: ${COMPREPLY[*]}"
		failed=1
	fi
}

cd "$TMPDIR" || exit 1
mkdir -p adir pinfold/tasks pinfold/live
if [ "$(id -u)" -ne 0 ]; then
	COMPREPLY=() verb=exec cur=
	_pinfold_candidates '<task>'
	if [ "${#COMPREPLY[@]}" -eq 0 ]; then
		echo 'ok - where no task is nothing is offered'
	else
		echo "not ok - where no task is nothing is offered: ${COMPREPLY[*]}"
		failed=1
	fi
fi
mkdir pinfold/tasks/t-abcdefgh pinfold/tasks/t-ended
: >pinfold/live/t-abcdefgh
touch afile
offers 'a command is completed' 'start stop' st
offers 'an option is completed' '--timeout' run --time
offers 'another command has other options' '--stat' diff --s
offers 'no option of another command is offered' '' ps --tty
offers 'the values of an option are offered' 'auto overlay copy' \
	run --workspace ''
offers 'a value behind an equals sign is completed' 'container' \
	run --tier = c
offers 'a directory is completed' 'adir' run --source ad
offers 'a file is completed' 'afile' run --policy af
offers 'the kind of a policy command is offered' 'check show' policy ''
offers 'a policy file is completed' 'afile' policy check af
offers 'a changed file is completed' 'afile' diff af
offers 'a file behind a task is completed' 'afile' promote t-ended af
offers 'the command to run is completed' 'printf' run -n -- print
offers 'the file names of the command are completed' 'afile' run cat a
offers 'a command behind a limit is completed' 'printf' \
	run --limit memory = 1GiB -- print
offers 'help completes commands' 'doctor' help do
if [ "$(id -u)" -ne 0 ]; then
	offers 'a task that runs is completed' 't-abcdefgh' exec t-
	offers 'any task is completed' 't-abcdefgh t-ended' diff t-
fi
exit $failed
