# Completion of capd for fish; see capd completion --help.
function __capd_complete
	set -l words (commandline -opc) (commandline -ct)
	set -l program $words[1]
	set -e words[1]
	set -l found ($program __complete $words 2>/dev/null)
	switch "$found[1]"
		case :files :dirs
			__fish_complete_path (commandline -ct)
		case '*'
			printf '%s\n' $found
	end
end
complete -c capd -f -a '(__capd_complete)'
