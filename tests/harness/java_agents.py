"""Java agents that tests put into a broker's process: compiled when a test needs them."""

import subprocess
import zipfile
from pathlib import Path

from cluster.java import find_java

SOURCES = Path(__file__).parent


def agent_jar(name: str, folder: Path) -> Path:
    """Compile `NAME.java` of this folder, and return its jar.

    Args:
        name: Of the class that has `premain`.
        folder: Where it is made.
    """
    classes = folder / "classes"
    compiler = [str(find_java().path), "--module", "jdk.compiler/com.sun.tools.javac.Main"]
    subprocess.run([*compiler, "-d", str(classes), str(SOURCES / f"{name}.java")], check=True)
    jar = folder / f"{name}.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr(
            "META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\nPremain-Class: {name}\n\n"
        )
        for each in sorted(classes.rglob("*.class")):
            archive.write(each, each.relative_to(classes))
    return jar


def agent_options(jar: Path, argument: str) -> dict[str, str]:
    """Return an environment in which each Java that starts takes an agent in."""
    return {"JAVA_TOOL_OPTIONS": f"-javaagent:{jar}={argument}"}
