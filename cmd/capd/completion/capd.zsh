#compdef capd
# Completion of capd for zsh; see capd completion --help.
_capd() {
	local line value
	local -a plain shown open
	for line in "${(@f)$("${words[1]}" __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
		case $line in
		'') continue ;;
		:files) _files; return ;;
		:dirs) _files -/; return ;;
		esac
		value=${line%%$'\t'*}
		if [[ $value == */ ]]; then
			open+=("$value")
		else
			plain+=("$value")
			if [[ $line == *$'\t'* ]]; then
				shown+=("$value  -- ${line#*$'\t'}")
			else
				shown+=("$value")
			fi
		fi
	done
	(( ${#open} )) && compadd -S '' -- "${open[@]}"
	(( ${#plain} )) && compadd -l -d shown -- "${plain[@]}"
}
compdef _capd capd
