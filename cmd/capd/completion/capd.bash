# Completion of capd for bash; see capd completion --help.
_capd() {
	local line cur=${COMP_WORDS[COMP_CWORD]} at=$COMP_CWORD
	COMPREPLY=()
	[[ $cur == = ]] && cur=
	while IFS= read -r line; do
		case $line in
		:files) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		:dirs) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
		esac
		line=${line%%$'\t'*}
		if [[ $line == */ ]]; then
			compopt -o nospace
		fi
		printf -v line %q "$line"
		COMPREPLY+=("$line")
	done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:at}" 2>/dev/null)
}
complete -F _capd capd
