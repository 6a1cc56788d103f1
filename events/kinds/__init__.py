"""All kinds of events: one tagged struct each, in one file a family.

A kind's name, fields and meaning never change; kinds and optional fields are only added.
"""

from __future__ import annotations

from typing import TypeAlias

from .episode import (
    ActionTaken as ActionTaken,
)
from .episode import (
    AgentFailed as AgentFailed,
)
from .episode import (
    AgentFinished as AgentFinished,
)
from .episode import (
    AgentMessage as AgentMessage,
)
from .episode import (
    AgentStarted as AgentStarted,
)
from .episode import (
    AppQueried as AppQueried,
)
from .episode import (
    EnvironmentReset as EnvironmentReset,
)
from .episode import (
    EpisodeEnded as EpisodeEnded,
)
from .episode import (
    ModelCalled as ModelCalled,
)
from .episode import (
    StepRewarded as StepRewarded,
)
from .episode import (
    StepRewardFailed as StepRewardFailed,
)
from .job import (
    BlobsPruned as BlobsPruned,
)
from .job import (
    EngineFault as EngineFault,
)
from .job import (
    JobCancelled as JobCancelled,
)
from .job import (
    JobFinished as JobFinished,
)
from .job import (
    JobInterrupted as JobInterrupted,
)
from .job import (
    JobResumed as JobResumed,
)
from .job import (
    JobStarted as JobStarted,
)
from .job import (
    RegradeFinished as RegradeFinished,
)
from .job import (
    RegradePlanned as RegradePlanned,
)
from .job import (
    RegradeSkipped as RegradeSkipped,
)
from .job import (
    TrialAbandoned as TrialAbandoned,
)
from .job import (
    TrialScheduled as TrialScheduled,
)
from .review import (
    ReviewCompleted as ReviewCompleted,
)
from .review import (
    ReviewFailed as ReviewFailed,
)
from .review import (
    ReviewFinished as ReviewFinished,
)
from .review import (
    ReviewStarted as ReviewStarted,
)
from .trial import (
    ArtifactsSaved as ArtifactsSaved,
)
from .trial import (
    LeaseLost as LeaseLost,
)
from .trial import (
    LeaseTaken as LeaseTaken,
)
from .trial import (
    ProcessesKilled as ProcessesKilled,
)
from .trial import (
    RegradeStarted as RegradeStarted,
)
from .trial import (
    SandboxFailed as SandboxFailed,
)
from .trial import (
    SandboxLost as SandboxLost,
)
from .trial import (
    SandboxRemoved as SandboxRemoved,
)
from .trial import (
    SandboxStarted as SandboxStarted,
)
from .trial import (
    TamperFound as TamperFound,
)
from .trial import (
    TrialErrored as TrialErrored,
)
from .trial import (
    TrialFinished as TrialFinished,
)
from .trial import (
    TrialInterrupted as TrialInterrupted,
)
from .trial import (
    TrialScored as TrialScored,
)
from .trial import (
    TrialStarted as TrialStarted,
)
from .trial import (
    TrialUnscored as TrialUnscored,
)
from .trial import (
    WarningRaised as WarningRaised,
)
from .trial import (
    WorkspaceHardened as WorkspaceHardened,
)
from .trial import (
    WorkspaceSaved as WorkspaceSaved,
)
from .verdict import (
    HindsightCredited as HindsightCredited,
)
from .verdict import (
    HindsightFailed as HindsightFailed,
)
from .verdict import (
    HumanReviewRequested as HumanReviewRequested,
)
from .verdict import (
    HumanReviewSubmitted as HumanReviewSubmitted,
)
from .verdict import (
    JudgeSampled as JudgeSampled,
)
from .verdict import (
    RegradeFailed as RegradeFailed,
)
from .verdict import (
    RegradeScored as RegradeScored,
)
from .verdict import (
    VerifierApplied as VerifierApplied,
)
from .verdict import (
    VerifierFailed as VerifierFailed,
)
from .verdict import (
    VerifierScored as VerifierScored,
)
from .verdict import (
    VerifierStarted as VerifierStarted,
)

JobEvent: TypeAlias = (
    JobStarted
    | TrialScheduled
    | TrialAbandoned
    | JobResumed
    | JobInterrupted
    | JobCancelled
    | JobFinished
    | RegradePlanned
    | RegradeSkipped
    | RegradeFinished
    | BlobsPruned
    | EngineFault
)
"""What a stream `job/…` may hold."""

TrialEvent: TypeAlias = (
    TrialStarted
    | SandboxStarted
    | SandboxFailed
    | ProcessesKilled
    | ArtifactsSaved
    | WorkspaceSaved
    | WorkspaceHardened
    | TrialScored
    | TrialUnscored
    | TrialErrored
    | TrialFinished
    | WarningRaised
    | TamperFound
    | SandboxLost
    | SandboxRemoved
    | TrialInterrupted
    | LeaseTaken
    | LeaseLost
    | RegradeStarted
    | AgentStarted
    | EnvironmentReset
    | ActionTaken
    | StepRewarded
    | StepRewardFailed
    | ModelCalled
    | AgentMessage
    | AppQueried
    | EpisodeEnded
    | AgentFinished
    | AgentFailed
    | VerifierStarted
    | JudgeSampled
    | VerifierScored
    | VerifierFailed
    | HumanReviewRequested
    | HumanReviewSubmitted
    | HindsightCredited
    | HindsightFailed
    | RegradeScored
    | RegradeFailed
    | VerifierApplied
)
"""What a stream `trial/…` may hold."""

ReviewEvent: TypeAlias = ReviewStarted | ReviewCompleted | ReviewFailed | ReviewFinished
"""What a stream `review/…` may hold."""

Event: TypeAlias = JobEvent | TrialEvent | ReviewEvent
"""Every kind."""
