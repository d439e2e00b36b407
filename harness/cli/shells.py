"""The scripts with which shells ask for completions; click fills in the names.

These scripts differ from click's own scripts. The bash script sends the command line exactly as the
user typed it. All scripts call the program as the user typed it, for example by its path. In fish,
an option's value may contain a comma: `kill,pause`.
"""

BASH = r"""
%(complete_func)s() {
    local IFS=$'\n'
    local response

    response=$(env COMP_WORDS="${COMP_LINE:0:COMP_POINT}" %(complete_var)s=bash_complete $1)

    for completion in $response; do
        IFS=',' read type value <<< "$completion"

        if [[ $type == 'dir' ]]; then
            COMPREPLY=()
            compopt -o dirnames
        elif [[ $type == 'file' ]]; then
            COMPREPLY=()
            compopt -o default
        elif [[ $type == 'plain' ]]; then
            COMPREPLY+=($value)
        fi
    done

    return 0
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""

ZSH = r"""#compdef %(prog_name)s

%(complete_func)s() {
    local -a completions described response

    response=("${(@f)$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) \
        %(complete_var)s=zsh_complete ${~words[1]})}")

    for type key descr in ${response}; do
        if [[ "$type" == "plain" ]]; then
            if [[ "$descr" == "_" ]]; then
                completions+=("$key")
            else
                described+=("$key":"$descr")
            fi
        elif [[ "$type" == "dir" ]]; then
            _path_files -/
        elif [[ "$type" == "file" ]]; then
            _path_files -f
        fi
    done

    if [ -n "$described" ]; then
        _describe -V unsorted described -U
    fi

    if [ -n "$completions" ]; then
        compadd -U -V unsorted -a completions
    fi
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    # Autoloaded from fpath: call the function.
    %(complete_func)s "$@"
else
    # Read by `source` or `eval`: register it for later.
    compdef %(complete_func)s %(prog_name)s
fi
"""

FISH = r"""
function %(complete_func)s;
    set -l response (env %(complete_var)s=fish_complete COMP_WORDS=(commandline -cp) \
        COMP_CWORD=(commandline -t) (commandline -opc)[1]);

    for completion in $response;
        set -l metadata (string split --max 1 "," $completion);

        if test $metadata[1] = "dir";
            __fish_complete_directories $metadata[2];
        else if test $metadata[1] = "file";
            __fish_complete_path $metadata[2];
        else if test $metadata[1] = "plain";
            echo $metadata[2];
        end;
    end;
end;

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)";
"""
