"""`gpuscan completion`: prints a script with which a shell completes commands, options and values.

The script asks a command of the program and no variable of the environment: nothing in the
environment can turn a command into another one.
"""

import typer

from gpuscan.cli.command import REQUIRED, Declared, argument, choice, command

app = typer.Typer()

SHELLS = ("bash", "zsh", "fish")
SCRIPTS = {
    "bash": """\
_gpuscan() {
    local IFS=$'\\n'
    COMPREPLY=($(gpuscan complete-words bash -- "${COMP_LINE:0:COMP_POINT}" 2>/dev/null))
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=:] ]] && compopt -o nospace
}
complete -o default -F _gpuscan gpuscan
""",
    "zsh": """\
#compdef gpuscan
_gpuscan() {
    local -a found
    found=(${(f)"$(gpuscan complete-words zsh -- "${(@)words[1,CURRENT]}" 2>/dev/null)"})
    if (( ${#found} )); then compadd -Q -- $found; else _files; fi
}
compdef _gpuscan gpuscan
""",
    "fish": """\
function __gpuscan_words
    gpuscan complete-words fish -- (commandline -opc) (commandline -ct) 2>/dev/null
end
complete -c gpuscan -a '(__gpuscan_words)'
""",
}
SHELL: Declared = {"shell": (argument(choice(*SHELLS)), REQUIRED)}
LINE: Declared = {"words": (argument(list[str], metavar="[WORD...]"), [])}
EXAMPLES = """
source <(gpuscan completion bash)
gpuscan completion zsh > ~/.zfunc/_gpuscan
gpuscan completion fish > ~/.config/fish/completions/gpuscan.fish
"""


@command(app, SHELL, examples=EXAMPLES)
def completion(shell: str) -> None:
    """Print the script that completes gpuscan's commands, options and values in a shell."""
    print(SCRIPTS[shell], end="")


@command(app, SHELL, LINE, name="complete-words", hidden=True)
def complete_words(shell: str, words: list[str]) -> None:
    """Print what the last word of a command line may become, one a line."""
    from gpuscan.cli.candidates import candidates, split_line

    # bash breaks words at = and :, so it hands over the line, and replaces only what comes after
    line = split_line(words[0] if words else "") if shell == "bash" else words
    last = line[-1] if line else ""
    kept = max(last.rfind("="), last.rfind(":")) + 1 if shell == "bash" else 0
    for found in candidates(line[1:]):
        print(found[kept:])
