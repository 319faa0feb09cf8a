"""wolfmeans on a GPU beside its peers: the same tensor, the same start, the same iterations.

Fits of 20 iterations and whole fits against flashlib, flash-kmeans and plain PyTorch in one
process, every contender warm and in turn; the labels of all are held against canonical distances
in float64, and wolfmeans against its CPU engine by ==. Then, where asked for: one large fit with
its certificate, many starts, data that is streamed, and profiles. What counts are ratios, time of
the faster peer over time of wolfmeans. See benchmarks/README.md.

    python benchmarks/gpu.py [--shapes 1000000x2x100 ...] [--kinds blobs] [--output FILE.json]
    python benchmarks/gpu.py --report FILE.json ... [--write docs/benchmarks.md]
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from gpu_options import parse, settings_of
from gpu_report import MARK, Report, as_json, load, markdown
from report_pages import publish


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(__doc__.splitlines()[0], arguments)
    if options.report:
        text = markdown([load(path) for path in options.report])
    else:
        settings = settings_of(options)
        if settings.device == "cpu":
            os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
        from gpu_parts import run

        def save(report: Report) -> None:
            if options.output:
                options.output.write_text(as_json(report), encoding="utf-8")

        report = run(settings, say=lambda line: print(line, flush=True), save=save)
        save(report)
        text = markdown([report])
    publish(text, options.write, MARK)


if __name__ == "__main__":
    main()
