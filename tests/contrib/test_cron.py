"""The table of contrib/cron, run by the real cron."""

from __future__ import annotations

import re

import pytest
from paths import ROOT
from throwaway import Throwaway, need, throwaway

pytestmark = pytest.mark.contrib

TABLE = ROOT / "contrib" / "cron" / "gpuscan"
AT_BOOT, HOURLY = (
    line for line in TABLE.read_text("utf-8").splitlines() if re.match(r"[@\d]", line)
)

# cron mails with sendmail; this one keeps the letter. It ends once cron has no child left.
RUN = """
cp bin/gpuscan /usr/local/bin/gpuscan
printf '#!/bin/sh\\ncat >> {share}/mail\\n' > /usr/sbin/sendmail
chmod +x /usr/sbin/sendmail
rm -rf /etc/cron.d /var/spool/cron/crontabs /etc/crontab
mkdir -p /etc/cron.d /var/spool/cron/crontabs
install -m 0644 table /etc/cron.d/gpuscan
cat > /usr/local/sbin/mark <<'END'
#!/bin/sh
touch {share}/ran
END
chmod +x /usr/local/sbin/mark
cron -f &
for _ in $(seq 300); do [ -e ran ] && ! pgrep -P "$!" > /dev/null && break; sleep 0.2; done
kill "$!"
"""


def mailed(place: Throwaway, line: str, arguments: str) -> str:
    """What cron mails of one line of the table that it starts at once."""
    head = TABLE.read_text("utf-8").partition("\n\n")[0]
    head = head.replace('GPUSCAN_ARGS=""', f'GPUSCAN_ARGS="{arguments}"')
    now = re.sub(r"^(@reboot|(\S+ ){5})", "@reboot ", line).replace("@reboot  ", "@reboot ")
    now = now.replace("% 300", "% 1")
    (place.share / "table").write_text(f"{head}\n{now}; mark\n", "utf-8")
    place.program()
    done = place.run(RUN.format(share=place.share))
    assert (place.share / "ran").exists(), done.err
    mail = place.share / "mail"
    return mail.read_text("utf-8").partition("\n\n")[2] if mail.exists() else ""


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Throwaway:
    need("cron", "pgrep")
    return throwaway(tmp_path_factory)


@pytest.mark.parametrize("line", [AT_BOOT, HOURLY], ids=["boot", "half-hourly"])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--replay demo", ""),
        ("--replay demo-broken", "exit 41: hardware (41): replace gpu SXM7"),
        ("--nonsense", "exit 2: "),
    ],
)
def test_only_what_did_not_pass_is_mailed(
    place: Throwaway, line: str, arguments: str, said: str
) -> None:
    mail = mailed(place, line, arguments)
    assert mail.startswith(said)
    assert bool(mail) == bool(said)


def test_the_table_is_as_cron_wants_it() -> None:
    assert AT_BOOT.startswith("@reboot root ")
    assert re.match(r"7,37 \* \* \* \* root ", HOURLY)
    assert not re.search(r"(?<!\\)%", HOURLY + AT_BOOT)  # cron takes a bare one for a new line
    assert TABLE.read_text("utf-8").endswith("\n")
