"""What holds for all tests of the package: settings that would change what they see are away, and libraries keep to one thread, since threads
do not survive the fork that makes a rank.
"""

import os

for name in [name for name in os.environ if name.startswith("HCOMM_") or name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")]:
    del os.environ[name]
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
# A tuning file of this machine is nothing that a test may depend on.
os.environ["HCOMM_TUNING"] = "off"
os.environ["HCOMM_STALL_WARNING"] = "0s"
