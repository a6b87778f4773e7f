#!/bin/bash
# Installs gpuscan without a network. Usage: install.sh WHEELHOUSE
# WHEELHOUSE is a folder that was filled where there is a network, with the same Python:
#   pip wheel --wheel-dir wheelhouse gpuscan     (or the path of a checkout in place of gpuscan)
set -eu
wheelhouse=${1:?usage: install.sh WHEELHOUSE}
prefix=${GPUSCAN_PREFIX:-/opt/gpuscan} # undo: rm -r this folder and the link
python=${GPUSCAN_PYTHON:-python3}      # 3.11 or newer

"$python" -m venv "$prefix"
"$prefix/bin/pip" install --quiet --disable-pip-version-check --no-index \
    --find-links "$wheelhouse" --upgrade gpuscan
ln -sfn "$prefix/bin/gpuscan" /usr/local/bin/gpuscan
gpuscan version
