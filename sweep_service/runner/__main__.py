"""`python -m sweep_service.runner SWEEP_ID EPOCH`: started by the worker, with its lifeline on standard input."""

import argparse
import faulthandler
import os
import signal
import sys

from sweep_service.errors import StaleEpoch
from sweep_service.processes.child_processes import LIFELINE
from sweep_service.runner.lease import LEASE_S, LOST_EXIT_CODE, NO_RAY_EXIT_CODE, Lease
from sweep_service.settings import Settings
from sweep_service.store import Fence, open_store
from trainers.process.environment import UMASK
from trainers.process.imports import keep_imports, without_collections
from trainers.process.lifeline import follow_parent
from trainers.process.signals import hear_stop_signals

# Read by Ray when it is imported, or passed on to its actors.
_RAY_SETTINGS = {
    "RAY_AIR_NEW_OUTPUT": "0",  # with verbose=0 the older output says nothing, the newer one does
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_AUTO_INIT": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # it would end Tune's loop as if all trials were done
    "TUNE_GLOBAL_CHECKPOINT_S": "1e9",  # Tune's own snapshots are never read
    "TUNE_MAX_PENDING_TRIALS_PG": "1000",  # the ledger hands out no more than there are slots
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
}


def main() -> int:
    """Run one sweep's trials.

    Exit codes: 0 done, 1 failed, 3 lease lost, 4 stuck, 75 no Ray, 76 gave way, 128 + N by signal N.
    """
    parser = argparse.ArgumentParser("python -m sweep_service.runner", description="Run one sweep (internal).")
    parser.add_argument("sweep_id")
    parser.add_argument("epoch", type=int)
    options = parser.parse_args()
    os.umask(UMASK)
    follow_parent(LIFELINE)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # before there is a lease, nothing needs an orderly end
    faulthandler.enable()
    os.environ.update(_RAY_SETTINGS)
    settings = Settings()
    store = open_store(settings.database_url)
    fence = Fence(options.sweep_id, options.epoch)
    try:
        store.renew_lease(fence, LEASE_S)
        lease = Lease(store, fence)
        lease.start()  # on a busy machine the import below may outlast the lease that the worker left behind
        hear_stop_signals(lease.end_by_signal)
        with without_collections():
            from sweep_service.runner.driver import run_sweep  # imports Ray, which reads the settings above

        keep_imports()
        run_sweep(store, settings, fence, lease)
    except StaleEpoch as error:
        sys.stderr.write(f"runner ends: {error}\n")
        return LOST_EXIT_CODE
    except ConnectionError as error:
        sys.stderr.write(f"runner ends: {error}\n")
        return NO_RAY_EXIT_CODE
    return 0


if __name__ == "__main__":
    code = main()
    if ray := sys.modules.get("ray"):
        ray.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # at once: Python takes most of a second to take Ray's threads apart, and the report would wait
