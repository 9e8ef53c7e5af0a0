#compdef kelsonctl
# zsh completion of kelsonctl
_kelsonctl() {
    local line
    local -a found
    while IFS= read -r line; do
        found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done < <(kelsonctl complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)
    if (( ${#found} )); then
        _describe kelsonctl found
    else
        _files
    fi
}
if [ "$funcstack[1]" = "_kelsonctl" ]; then
    _kelsonctl "$@"
else
    compdef _kelsonctl kelsonctl
fi
