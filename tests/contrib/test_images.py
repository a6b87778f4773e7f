"""Images and first boots: cloud-init, Packer, Terraform and MAAS, as far as installed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from paths import ROOT
from program import Ended, environment
from throwaway import Throwaway, need, throwaway
from wheelhouse import wheelhouse

pytestmark = pytest.mark.contrib

CONTRIB = ROOT / "contrib"
MAAS = CONTRIB / "maas" / "50-gpuscan"
IMAGE_TEST = CONTRIB / "packer" / "test-image.sh"

# A machine that answers ssh on loopback, within the place's own network.
SSHD = """
ssh-keygen -q -t ed25519 -N '' -f host
ssh-keygen -q -t rsa -m PEM -N '' -f key
mkdir -p /root/.ssh /run/sshd
cp key.pub /root/.ssh/authorized_keys
chmod -R go= /root/.ssh
/usr/sbin/sshd -f /dev/null -h "$PWD/host" -p 22 -o ListenAddress=127.0.0.1 -o StrictModes=no \\
    -o PermitUserEnvironment=no -o PubkeyAcceptedAlgorithms=+ssh-rsa
export HOME=/root CHECKPOINT_DISABLE=1
"""


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Throwaway:
    return throwaway(tmp_path_factory)


def read(path: Path) -> str:
    return path.read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "code"), [("--replay demo", 0), ("--replay demo-broken", 41), ("--nonsense", 2)]
)
def test_terraform_makes_what_depends_on_the_node_only_after_it_passed(
    place: Throwaway, arguments: str, code: int
) -> None:
    need("terraform", "sshd")
    place.program()
    after = """
resource "terraform_data" "work" {
  depends_on = [terraform_data.gpuscan]
}
"""
    (place.share / "after.tf").write_text(after, "utf-8")
    done = place.run(f"""{SSHD}
cp bin/gpuscan /usr/local/bin/gpuscan
cp {CONTRIB}/terraform/main.tf .
terraform init -no-color
terraform validate -no-color
terraform apply -no-color -auto-approve -var host=127.0.0.1 -var key_file=key \\
    -var 'gpuscan_args={arguments}' > applied 2>&1 || echo "failed: $?" > failed
terraform state list > made
""")
    assert done.code == 0, done.out + done.err
    applied = read(place.share / "applied")
    assert (place.share / "failed").exists() == bool(code), applied
    assert ("terraform_data.work" in read(place.share / "made")) == (not code)
    if code:
        assert f"exited with status {code}" in applied


@pytest.mark.parametrize("tool", ["terraform", "packer"])
def test_the_files_are_formatted(tool: str) -> None:
    need(tool)
    words = [tool, "fmt", "-check", "-diff", str(CONTRIB / tool)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("used", [False, True], ids=["clean", "with a node's history"])
def test_packer_makes_no_image_that_fails_its_test(place: Throwaway, used: bool) -> None:
    need("packer", "sshd")
    shutil.copytree(wheelhouse(), place.share / "wheelhouse")
    history = "mkdir /var/lib/gpuscan; touch /var/lib/gpuscan/last.json" if used else ""
    done = place.run(f"""{SSHD}{history}
ln -sf {sys.executable} /usr/local/bin/python3
packer validate -var host=127.0.0.1 -var key=key {CONTRIB}/packer
packer build -color=false -var host=127.0.0.1 -var key=key {CONTRIB}/packer > built 2>&1 \\
    || echo "failed: $?" > failed
gpuscan version > version
""")
    assert done.code == 0, done.out + done.err
    built = read(place.share / "built")
    assert (place.share / "failed").exists() == used, built
    assert ("every copy of the image would inherit" in built) == used
    assert read(place.share / "version").startswith("gpuscan ")


def image_test(tmp_path: Path, script: str) -> Ended:
    stand_in = tmp_path / "gpuscan"
    stand_in.write_text(f"#!/bin/bash\n{script}\n", "utf-8")
    stand_in.chmod(0o755)
    env = environment({"GPUSCAN": str(stand_in)})
    words = ["bash", str(IMAGE_TEST)]
    done = subprocess.run(words, capture_output=True, text=True, env=env, check=False)
    return Ended(done.returncode, done.stdout, done.stderr)


def test_an_image_whose_gpuscan_misjudges_is_refused(tmp_path: Path) -> None:
    done = image_test(tmp_path, "exit 0")
    assert done.code == 1
    assert "exit 0, not 41" in done.err


@pytest.mark.parametrize(
    ("fault", "code", "joined"), [("demo", 0, True), ("demo-broken", 41, False)]
)
def test_cloud_init_ends_in_error_and_does_not_join_a_node_that_failed(
    place: Throwaway, fault: str, code: int, joined: bool
) -> None:
    need("cloud-init")
    if joined:  # the first boot installs it, the other finds it
        shutil.copytree(wheelhouse(), place.share / "wheelhouse")
    else:
        shutil.copy(place.program(), place.share / "gpuscan")
    data = read(CONTRIB / "cloud-init" / "user-data")
    data = data.replace('GPUSCAN_ARGS=""', f'GPUSCAN_ARGS="--replay {fault}"')
    (place.share / "user-data").write_text(data, "utf-8")
    (place.share / "meta-data").write_text("instance-id: node-1\n", "utf-8")
    done = place.run(f"""
mkdir /opt/gpuscan-install
cp -r {CONTRIB}/install/install.sh wheelhouse /opt/gpuscan-install/ 2>/dev/null || true
[ ! -e gpuscan ] || cp gpuscan /usr/local/bin/gpuscan
ln -sf {sys.executable} /usr/local/bin/python3
printf '#!/bin/sh\\ntouch {place.share}/joined\\n' > /usr/local/sbin/join-cluster
chmod +x /usr/local/sbin/join-cluster
rm -rf /var/lib/cloud /etc/cloud/cloud.cfg.d
mkdir -p /var/lib/cloud/seed/nocloud /etc/cloud/cloud.cfg.d
cp user-data meta-data /var/lib/cloud/seed/nocloud/
cat > /etc/cloud/cloud.cfg <<CFG
datasource_list: [NoCloud]
network: {{config: disabled}}
cloud_init_modules: [write-files]
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts-user]
CFG
cloud-init schema --config-file {CONTRIB}/cloud-init/user-data
cloud-init init --local > log 2>&1
cloud-init init >> log 2>&1
cloud-init modules --mode config >> log 2>&1
code=0
cloud-init modules --mode final >> log 2>&1 || code=$?
echo "$code" > code
cp /var/lib/cloud/data/result.json . || true
""")
    assert done.code == 0, done.out + done.err
    log = read(place.share / "log")
    assert (place.share / "joined").exists() == joined, log
    assert (read(place.share / "code").strip() == "0") == joined
    errors = json.loads(read(place.share / "result.json"))["v1"]["errors"]
    assert bool(errors) == (not joined)
    assert (f"exit code {code}; this node is not put to work" in log) == (not joined)


def header() -> dict[str, Any]:
    found = re.search(
        r"# --- Start MAAS 1.0 script metadata ---\n(.*)# --- End MAAS", read(MAAS), re.DOTALL
    )
    assert found is not None
    text = "".join(line.removeprefix("# ") for line in found[1].splitlines(keepends=True))
    return dict(yaml.safe_load(text))


def test_the_maas_header_is_yaml_that_maas_knows() -> None:
    known = {"name", "title", "description", "script_type", "hardware_type", "for_hardware"}
    known |= {"parallel", "timeout", "results"}
    assert header().keys() == known
    assert header()["name"] == MAAS.name
    assert header()["script_type"] == "commissioning"


@pytest.mark.parametrize(
    ("fault", "code", "status"), [("demo", 0, "passed"), ("demo-broken", 41, "failed")]
)
@pytest.mark.parametrize("writable", [True, False])
def test_a_machine_that_failed_fails_commissioning(
    place: Throwaway, tmp_path: Path, fault: str, code: int, status: str, writable: bool
) -> None:
    result = tmp_path / "result.yaml" if writable else tmp_path / "nowhere" / "result.yaml"
    env = {**os.environ, "GPUSCAN": str(place.program()), "RESULT_PATH": str(result)}
    words = [str(MAAS), "--replay", fault]
    done = subprocess.run(words, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == code
    if writable:
        told = yaml.safe_load(read(result))
        assert (told["status"], told["results"]["exit_code"]) == (status, str(code))
        assert told["results"]["summary"] == done.stdout.strip()
        assert told["results"].keys() == header()["results"].keys()
    else:
        assert "cannot write" in done.stderr
