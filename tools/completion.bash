# The candidates of COMPREPLY for a list of words, in which <file>, <dir> and
# <task> stand for all of their kind.
_pinfold_candidates()
{
	local word words= tasks

	for word in $1; do
		case $word in
		'<file>' | '<dir>')
			# A slash after a directory, and odd names quoted.
			compopt -o filenames 2>/dev/null
			mapfile -t -O ${#COMPREPLY[@]} COMPREPLY \
				< <(compgen "-${word:1:1}" -- "$cur")
			;;
		'<task>')
			tasks=${XDG_STATE_HOME:-$HOME/.local/state}/pinfold
			((EUID == 0)) && tasks=/var/lib/pinfold
			# What only a sandbox that runs can be asked.
			case $verb in
			exec | stop | kill) tasks=("$tasks"/live/t-*) ;;
			*) tasks=("$tasks"/tasks/t-*) ;;
			esac
			[[ -e ${tasks[0]} ]] && words+=" ${tasks[*]##*/}"
			;;
		*) words+=" $word" ;;
		esac
	done
	mapfile -t -O ${#COMPREPLY[@]} COMPREPLY \
		< <(compgen -W "$words" -- "$cur")
	[[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace 2>/dev/null
	return 0
}

_pinfold()
{
	local cur=${COMP_WORDS[COMP_CWORD]} verb= operands=0 options= first= \
		command_from=-1 values= i word

	COMPREPLY=()
	_pinfold_verb ''
	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if [[ $word == -- && -n $verb ]]; then
			operands=$((command_from > operands ? command_from : operands))
			((i++))
			break
		elif _pinfold_option "$word"; then
			# bash makes words of their own of "=" and the value.
			((i++))
			[[ ${COMP_WORDS[i]} == '=' ]] && ((i++))
			if ((i >= COMP_CWORD)); then
				[[ $cur == '=' ]] && cur=
				_pinfold_candidates "$values"
				return
			fi
		elif [[ $word == '=' ]]; then
			((i++))
		elif [[ $word == -* ]]; then
			:
		elif [[ -z $verb ]]; then
			verb=$word
			_pinfold_verb "$verb"
		else
			((command_from == operands)) && break
			((operands++))
		fi
	done
	((i > COMP_CWORD)) && return
	if [[ -z $verb && $cur != -* ]]; then
		_pinfold_candidates "$_pinfold_verbs"
	elif ((i < COMP_CWORD)) || { ((command_from == operands)) &&
		[[ $cur != -* ]]; }; then
		_pinfold_command "$i"
	elif [[ $cur == -* ]]; then
		_pinfold_candidates "$options"
	elif [[ $verb == help ]]; then
		_pinfold_candidates "$_pinfold_verbs"
	elif ((operands == 0)) || [[ $first == '<task>'* ]]; then
		_pinfold_candidates "$first"
	else
		_pinfold_candidates '<file>'
	fi
}

# The command that pinfold is to run begins at this word.
_pinfold_command()
{
	if declare -F _command_offset >/dev/null; then
		_command_offset "$1"
	elif ((COMP_CWORD == $1)); then
		mapfile -t COMPREPLY < <(compgen -c -- "$cur")
	else
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
	fi
}

complete -F _pinfold pinfold
