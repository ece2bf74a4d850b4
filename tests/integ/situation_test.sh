#!/bin/sh
# The three situations are what tests/run says they are.
set -u

failed=0
check() {
	sentence=$1
	shift
	if "$@"; then
		echo "ok - $sentence"
	else
		echo "not ok - $sentence: $*"
		failed=1
	fi
}

# True if this user namespace maps all ids, as the machine's first one does.
maps_everything() {
	awk '{ n += $3 } END { exit n < 4294967295 }' /proc/self/uid_map
}

maps_one_id() {
	awk '{ n += $3 } END { exit n != 1 }' /proc/self/uid_map
}

can_make_files_in() {
	touch "$1/pinfold-situation" && rm "$1/pinfold-situation"
}

cannot() {
	! "$@" 2>/dev/null
}

case $PINFOLD_SITUATION in
root)
	check 'root is root' [ "$(id -u)" -eq 0 ]
	;;
user)
	check 'an ordinary user is not root' [ "$(id -u)" -ne 0 ]
	check 'an ordinary user cannot write to the system' \
		cannot can_make_files_in /var/lib
	;;
userns)
	check 'inside a user namespace the user seems to be root' \
		[ "$(id -u)" -eq 0 ]
	check 'inside a user namespace one id is mapped' maps_one_id
	check 'inside a user namespace the machine is not writable' \
		cannot can_make_files_in /usr
	check 'inside a user namespace /var/lib can be written' \
		can_make_files_in /var/lib
	check 'inside a user namespace /run can be written' \
		can_make_files_in /run
	;;
*)
	echo "not ok - the situation has a name: $PINFOLD_SITUATION"
	failed=1
	;;
esac
[ "$PINFOLD_SITUATION" = userns ] ||
	check 'outside a user namespace all ids are mapped' maps_everything
check 'TMPDIR is private and can be written' can_make_files_in "$TMPDIR"
check 'HOME can be read' [ -r "$HOME" ]
check 'the build can be read' [ -r "$PINFOLD_BUILD/tests" ]
exit $failed
