"""All kinds of events: one tagged struct each, in one file a family.

A kind's name, fields and meaning never change; kinds and optional fields are only added.
"""

from __future__ import annotations

from typing import TypeAlias

from .episode import (
    ActionTaken as ActionTaken,
    AgentFailed as AgentFailed,
    AgentFinished as AgentFinished,
    AgentMessage as AgentMessage,
    AgentStarted as AgentStarted,
    AppQueried as AppQueried,
    EnvironmentReset as EnvironmentReset,
    EpisodeEnded as EpisodeEnded,
    ModelCalled as ModelCalled,
    StepRewardFailed as StepRewardFailed,
    StepRewarded as StepRewarded,
)
from .job import (
    BlobsPruned as BlobsPruned,
    EngineFault as EngineFault,
    JobCancelled as JobCancelled,
    JobFinished as JobFinished,
    JobInterrupted as JobInterrupted,
    JobResumed as JobResumed,
    JobStarted as JobStarted,
    RegradeFinished as RegradeFinished,
    RegradePlanned as RegradePlanned,
    RegradeSkipped as RegradeSkipped,
    TrialAbandoned as TrialAbandoned,
    TrialScheduled as TrialScheduled,
)
from .review import (
    ReviewCompleted as ReviewCompleted,
    ReviewFailed as ReviewFailed,
    ReviewFinished as ReviewFinished,
    ReviewStarted as ReviewStarted,
)
from .trial import (
    ArtifactsSaved as ArtifactsSaved,
    LeaseLost as LeaseLost,
    LeaseTaken as LeaseTaken,
    ProcessesKilled as ProcessesKilled,
    RegradeStarted as RegradeStarted,
    SandboxFailed as SandboxFailed,
    SandboxLost as SandboxLost,
    SandboxRemoved as SandboxRemoved,
    SandboxStarted as SandboxStarted,
    TamperFound as TamperFound,
    TrialErrored as TrialErrored,
    TrialFinished as TrialFinished,
    TrialInterrupted as TrialInterrupted,
    TrialScored as TrialScored,
    TrialStarted as TrialStarted,
    TrialUnscored as TrialUnscored,
    WarningRaised as WarningRaised,
    WorkspaceHardened as WorkspaceHardened,
    WorkspaceSaved as WorkspaceSaved,
)
from .verdict import (
    HindsightCredited as HindsightCredited,
    HindsightFailed as HindsightFailed,
    HumanReviewRequested as HumanReviewRequested,
    HumanReviewSubmitted as HumanReviewSubmitted,
    JudgeSampled as JudgeSampled,
    RegradeFailed as RegradeFailed,
    RegradeScored as RegradeScored,
    VerifierApplied as VerifierApplied,
    VerifierFailed as VerifierFailed,
    VerifierScored as VerifierScored,
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

ReviewEvent: TypeAlias = (
    ReviewStarted
    | ReviewCompleted
    | ReviewFailed
    | ReviewFinished
)
"""What a stream `review/…` may hold."""

Event: TypeAlias = JobEvent | TrialEvent | ReviewEvent
"""Every kind."""
