"""What surrounds the code agrees with it: container files, Makefile, README."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from packaging.requirements import Requirement

from coterie.cli.main import main

ROOT = Path(__file__).parents[2]
# The jobs of workflows that may write.
PUBLISHING = {"documentation": {"publish"}, "image": {"published"}, "release": {"publish"}}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_compose_file_serves_on_loopback_and_keeps_its_data() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    coterie = services["coterie"]
    assert coterie["ports"] == ["127.0.0.1:9092:9092"]
    assert [volume.split(":")[1] for volume in coterie["volumes"]] == ["/data"]
    assert all(
        port.startswith("127.0.0.1:") for each in services.values() for port in each["ports"]
    )


def test_compose_file_says_the_address_of_each_kind_of_client() -> None:
    """The image advertises the container's name in the network; test_image_start.py has it."""
    text = (ROOT / "docker-compose.yml").read_text()
    assert yaml.safe_load(text)["services"]["coterie"]["hostname"] == "coterie"
    assert "localhost:9092" in text
    assert "coterie:19092" in text


def test_image_runs_as_a_user_who_is_not_root() -> None:
    """By number, since Kubernetes does not look up names."""
    users = re.findall(r"^USER (.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert users == ["1000"]


def test_examples_for_kubernetes_run_without_rights_and_are_probed() -> None:
    """kubernetes-validate has checked the rest of them; docs/containers.md says against what."""
    for path in sorted((ROOT / "examples" / "kubernetes").glob("*.yaml")):
        (workload,) = (
            each for each in yaml.safe_load_all(path.read_text()) if each["kind"] != "Service"
        )
        pod = workload["spec"]["template"]["spec"]
        (broker,) = (
            each
            for each in [*pod.get("initContainers", []), *pod["containers"]]
            if each["name"] == "coterie"
        )
        rights = {**pod.get("securityContext", {}), **broker["securityContext"]}
        assert rights["runAsNonRoot"], path
        assert rights["readOnlyRootFilesystem"], path
        assert not rights["allowPrivilegeEscalation"], path
        assert rights["capabilities"] == {"drop": ["ALL"]}, path
        assert broker.get("startupProbe") or broker["readinessProbe"], path


def test_kafka_beside_it_is_the_release_that_everything_is_compared_with() -> None:
    kafka = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["kafka"]
    assert kafka["image"] == "apache/kafka:4.3.1"
    environment = kafka["environment"]
    names = {
        setting: dict(each.split("://") for each in environment[setting].split(","))
        for setting in ("KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS")
    }
    advertised = names["KAFKA_ADVERTISED_LISTENERS"]
    assert advertised == {"HOST": "localhost:19092", "NETWORK": "kafka:29092"}
    for name, address in advertised.items():
        assert names["KAFKA_LISTENERS"][name] == f"0.0.0.0:{address.split(':')[1]}"
    protocols = dict(
        each.split(":") for each in environment["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(",")
    )
    assert set(protocols) == set(names["KAFKA_LISTENERS"])
    assert environment["KAFKA_INTER_BROKER_LISTENER_NAME"] in advertised


def test_example_of_the_image_publishes_on_loopback() -> None:
    published = re.findall(r"docker run .*?-p (\S+)", (ROOT / "Dockerfile").read_text())
    assert published
    assert all(each.startswith("127.0.0.1:") for each in published)


def test_image_has_every_package_of_the_distribution() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert packages == ["coterie"]
    assert "COPY coterie coterie" in dockerfile
    # The build backend.
    assert "COPY compilation compilation" in dockerfile


def test_links_at_the_top_lead_into_the_package() -> None:
    """The package has one path: a checkout without links is complete (ADR 9).

    Where there are no links, git writes files with the names that they would lead to.
    """
    links = {
        name: str(path.readlink()) if path.is_symlink() else path.read_text()
        for name in ("protocol", "storage", "assignors", "coordinator")
        for path in [ROOT / name]
    }
    assert links == {name: f"coterie/{name}" for name in links}
    assert {path.name for path in ROOT.iterdir() if path.is_symlink()} <= set(links)
    assert not [path for path in (ROOT / "coterie").rglob("*") if path.is_symlink()]


@pytest.mark.parametrize(
    "name", ["Dockerfile", "container/start-broker.sh", "docker-compose.yml", "Makefile"]
)
def test_options_that_are_written_down_exist(name: str) -> None:
    """Every `coterie ... --option` that a file shows is known to the command line."""
    # Continued lines, and the words of a command in a Dockerfile.
    text = (ROOT / name).read_text().replace("\\\n", " ").replace('", "', " ")
    shown = re.findall(r"coterie (serve|groups|topics|dump)((?: +[\w./:=$@\"-]+)*)", text)
    assert shown or name == "docker-compose.yml"
    for command, rest in shown:
        sub = [word for word in rest.split() if re.fullmatch(r"[a-z][a-z-]+", word)][:1]
        words = [command, *(sub if command != "serve" else [])]
        result = CliRunner().invoke(main, [*words, "--help"], prog_name="coterie")
        assert result.exit_code == 0, (words, result.output)
        for option in re.findall(r"--[a-z-]+", rest):
            assert option in result.output, (
                f"{name} shows {option}, `coterie {' '.join(words)}` has none"
            )


def test_makefile_describes_every_verb() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    for verb in phony.group(1).split():
        assert re.search(rf"^{verb}:.*## ", makefile, re.MULTILINE), verb


def test_locked_versions_are_those_that_the_project_asks_for() -> None:
    """`make lock` writes the file; with `--no-deps` nothing else would notice a missing line."""
    locked: dict[str, str] = dict(
        re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements-dev.txt").read_text(), re.MULTILINE)
    )
    project = PROJECT["project"]
    optional = project["optional-dependencies"]
    extras = [
        each for name in ("docs", "pipeline", "security", "test", "dev") for each in optional[name]
    ]
    for each in [*project["dependencies"], *extras]:
        requirement = Requirement(each)
        if requirement.name == "coterie":
            continue
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        assert name in locked, f"{each} is not in requirements-dev.txt: run `make lock`"
        assert requirement.specifier.contains(locked[name], prereleases=True), (
            f"requirements-dev.txt has {name} {locked[name]}, pyproject.toml asks for {each}: "
            "run `make lock`"
        )


def test_workflows_write_only_where_they_publish() -> None:
    """actionlint checks them as a whole; this is what a mistake would be dear in."""
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert [each.stem for each in workflows] == [
        *("checks", "documentation", "image", "nightly", "release", "wheels")
    ]
    for path in workflows:
        workflow = yaml.safe_load(path.read_text())
        assert workflow["permissions"] == {"contents": "read"}
        writing = {name for name, job in workflow["jobs"].items() if "permissions" in job}
        assert writing == PUBLISHING.get(path.stem, set())


def test_links_of_the_readme_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / target).exists(), target
