"""Commands on jobs, as the command line and other programs call them."""

from .cancel import cancel_job as cancel_job
from .plan import PlannedSlot as PlannedSlot
from .results import JobResult as JobResult
from .run import plan_resume as plan_resume
from .run import resume_job as resume_job
from .run import run_job as run_job
from .services import Services as Services
