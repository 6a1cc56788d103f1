"""Codes of warnings and categories of errors. They are part of the format: only ever added to.

Each has one sentence of meaning and one of what to do next; ``trialog explain`` prints them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class Code(NamedTuple):
    """What a code means."""

    meaning: str
    next: str


WARNINGS: dict[str, Code] = {
    "imported_unreadable": Code(
        "A file of an imported trial's is not as its system writes it; it was kept, but not read.",
        "Read the file itself: its blob is named in the trial's first event.",
    ),
    "reward_missing": Code(
        "The test script wrote no reward file that could be used.",
        "Read verifier/test-stdout.txt; the test should write a reward on every path.",
    ),
    "verifier_timeout": Code(
        "The test script ran past verifier.timeout_sec and was stopped.",
        "Read verifier/test-stdout.txt; raise verifier.timeout_sec if the test is honestly slow.",
    ),
    "reward_not_a_number": Code(
        "A reward or score is not a finite number.",
        "Write a plain JSON number; put details into reward-details.json.",
    ),
    "reward_out_of_range": Code(
        "A reward or score lies outside the task's range.",
        "Mend the test, or widen verifier.reward_range.",
    ),
    "reward_conflict": Code(
        "reward.txt and reward.json give different rewards; reward.txt decided.",
        "Write the reward in one place.",
    ),
    "reward_unusable": Code(
        "A reward file is no regular file, is over 1 MiB, or may not be read.",
        "Write a small plain file; a link, pipe, device or folder in its place is never read.",
    ),
    "reward_details": Code(
        "Entries of reward.json that are no numbers were kept as details and not scored.",
        "Write what is no score to reward-details.json.",
    ),
    "reward_aggregated": Code(
        "reward.json has no reward, and verifier.aggregate made one from its numbers.",
        "Nothing, if that is meant; else write `reward` too.",
    ),
    "reward_scores_lost": Code(
        "reward.json could not be used; reward.txt gave the reward, without further scores.",
        "Mend what writes reward.json.",
    ),
    "verifier_file_skipped": Code(
        "reward-details.json or ctrf.json was not kept.",
        "Write a plain file of at most 16 MiB.",
    ),
    "model_calls_failed": Code(
        "Calls of an agent in the sandbox failed at its model's endpoint, which refused the key, "
        "did not know the model, could not be reached or answered with errors. Where others were "
        "answered, the work was graded, and the score may say more of the endpoint than of the "
        "agent; where none was, the trial is errored, and a resume runs it again.",
        "See that key, model and endpoint are right; then `trialog resume JOB` for what is "
        "errored, and `trialog run --from JOB` for what was scored, which a resume leaves.",
    ),
    "gateway_refused": Code(
        "The model gateway refused requests of the agent's: without the trial's key, malformed, "
        "too large, for another model than the trial's, or for what it does not pass on.",
        "The message counts them by reason; see what the gateway passes on in docs/gateway.md.",
    ),
    "agent_report_malformed": Code(
        "A line that the agent's program reported is no action, or an update that an agent sent is "
        "none of its protocol's.",
        "Write one JSON object a line; see docs/agents.md.",
    ),
    "agent_version_unknown": Code(
        "The command that is to tell the agent's version failed, or said nothing.",
        "Mend `version` in agent.yaml; the message says how it ended.",
    ),
    "agent_report_cut": Code(
        "Not all that the agent's program reported was kept; the message says why.",
        "Only add lines to the report, and fewer or shorter ones; see docs/agents.md.",
    ),
    "task_setting_unknown": Code(
        "A setting of the task is not one that is known; it was ignored.",
        "Correct its name, or remove it; docs/tasks.md lists the settings.",
    ),
    "task_setting_twice": Code(
        "A setting is given in two ways that differ; the message says which holds.",
        "Keep one of them.",
    ),
    "task_setting_not_honoured": Code(
        "A setting is known but has no effect here.",
        "Read the message; the task runs without what it asks for.",
    ),
    "task_two_settings": Code(
        "A task has both task.md and task.toml; task.md holds.",
        "Remove the one that is not meant.",
    ),
    "task_no_front_matter": Code(
        "A task.md does not begin with settings; all have their defaults.",
        "Put settings between two lines of three dashes at its top.",
    ),
    "task_section_unused": Code(
        "A section of task.md is for several agents or a simulated user and is not used.",
        "Move what the agent must know into the prompt.",
    ),
    "task_two_verifiers": Code(
        "A task has both verifier/test.sh and tests/test.sh; one of them runs.",
        "Remove the one that is not meant.",
    ),
    "task_verifier_document": Code(
        "The verifier's folder has a verifier.md, which is not read.",
        "See that test.sh alone gives the score that is meant.",
    ),
    "task_network_unsaid": Code(
        "The test fetches something, and the task does not say whether it has a network.",
        "Run it with --default-network, or set allow_internet in the task.",
    ),
    "task_no_solution": Code(
        "The folder of the reference solution has no solve.sh.",
        "Add one, so that the oracle agent can show that the task can be done.",
    ),
    "task_context_root": Code(
        "The Dockerfile copies files from the task's root, so the root is the build context.",
        "Move what it copies into environment/.",
    ),
    "env_variable_unset": Code(
        "An env setting names a variable that is not set; it is empty.",
        "Set the variable, or write ${VAR:-default}.",
    ),
    "check_no_timeout": Code(
        "A task sets no limit for a phase, so the default holds.",
        "Set agent.timeout_sec and verifier.timeout_sec.",
    ),
    "check_no_solution": Code(
        "There is no reference solution, or an empty one.",
        "Write one: it shows that the task can be done and that the test passes it.",
    ),
    "check_crlf": Code(
        "A shell script of the verifier has CRLF line ends.",
        "Save it with LF line ends.",
    ),
    "check_python_not_isolated": Code(
        "The test runs Python without -I, so files of the agent's can be imported.",
        "Run python3 -I.",
    ),
    "check_guard_kept_out": Code(
        "The test asks for $TRIALOG_PYTEST and runs another pytest that keeps its guard out.",
        "Use $TRIALOG_PYTEST alone; under python3 -I no other pytest is graded.",
    ),
    "check_setup_needs_network": Code(
        "The test fetches something from the network, which the task does not allow.",
        "Put it into the image or the verifier's folder.",
    ),
    "check_setup_unchecked": Code(
        "A set-up step of the test can fail, and the test would go on and score 0.",
        "End the script there without a reward, or move the step into the image.",
    ),
    "check_setup_failed": Code(
        "The reference solution scored too little, and the test printed that a tool was missing, "
        "a download failed or no test was found.",
        "End the script there without a reward (set -e, or || exit 1), and put what it needs into "
        "the image or the verifier's folder: a 0 that is written counts as the agent's.",
    ),
    "check_failure_ignored": Code(
        "The test hides whether its check passed, failed or could not run.",
        "Decide the reward by the check's exit code.",
    ),
    "check_reward_never_written": Code(
        "No file of the verifier names a reward file.",
        "Write /logs/verifier/reward.txt or reward.json.",
    ),
    "check_reward_on_one_path": Code(
        "The test writes a reward only when its check passes.",
        "Write a 0 first.",
    ),
    "limit_lowered": Code(
        "A limit is over what this machine has; the sandbox got all of it.",
        "Run on a larger machine, or lower the limit.",
    ),
    "engine_warning": Code(
        "The container engine warned of something when it made the sandbox.",
        "Read the message; it is the engine's own.",
    ),
    "limit_not_kept": Code(
        "A limit could not be held, or only in part, by this sandbox.",
        "Read the message; `--strict-limits` refuses such a task; Docker can hold more.",
    ),
    "network_shared": Code(
        "The task has a network, and with bubblewrap it is the host's own.",
        "Use `--sandbox docker` for a network of its own.",
    ),
    "save_timeout": Code(
        "Saving artifacts and workspace took longer than allowed; what was not saved is lost.",
        "A smaller workspace helps; the trial can't be graded again from its saved work.",
    ),
    "workspace_not_saved": Code(
        "The final workspace was not saved.",
        "Raise --workspace-cap-mb, or have the task leave less behind.",
    ),
    "artifact_skipped": Code(
        "A declared artifact was not kept.",
        "See its reason; links are never followed out of the sandbox.",
    ),
    "system_changed": Code(
        "The agent changed programs or libraries of the system.",
        "Basic ones are put back before grading (see `tamper`); honest work installs packages.",
    ),
    "hardening_skipped": Code(
        "Steps of the clean-up between agent and verifier could not be done on this engine.",
        "Read the message; a verifier in a sandbox of its own needs none of them.",
    ),
    "secret_in_workspace": Code(
        "A secret's value lies in the saved workspace, which keeps its bytes.",
        "Don't share the saved workspace; see how the task or agent wrote it there.",
    ),
    "separate_without_artifacts": Code(
        "The verifier was moved to a sandbox of its own, and the task declares no artifacts.",
        "Declare under artifacts what the test reads outside the workspace.",
    ),
    "replay_shorter": Code(
        "A replayed trial ended with fewer model calls than the recorded one made.",
        "See how the agent ended: another limit or deadline, or a tool that gave something else.",
    ),
    "judge_model_changed": Code(
        "A judge's model called itself by different names, so its samples are of different judges.",
        "Name an exact version as the verifier's model, not an alias that moves.",
    ),
    "judge_unstable": Code(
        "Some of a judge's samples would pass the trial and others would not.",
        "Look at samples and spread in result.json; make the criteria more exact.",
    ),
    "judge_sample_lost": Code(
        "Some of a judge's samples got no reply; the verdict is the mean of the others.",
        "Read the message; `trialog replay TRIAL` shows every reply.",
    ),
    "reward_failed": Code(
        "A verifier's reward hook raised, ran too long or gave what is no number, so it gave the "
        "step no reward; the action and the trial's score are as they would be without.",
        "Mend the line that the error names, raise the verifier's version, then label the trials "
        "with it by `trialog verifier apply`; see docs/labels.md.",
    ),
    "hindsight_failed": Code(
        "A verifier's hindsight hook raised, ran too long or gave what is no credit, so all of its "
        "credit in that trial is missing; the score stays.",
        "Mend the line that the error names, raise the verifier's version, then label the trials "
        "with it by `trialog verifier apply`; see docs/labels.md.",
    ),
    "score_out_of_range": Code(
        "A check gave a score outside 0 to 1, and other verifiers score the trial too; it counts "
        "as it is, so it can outvote them.",
        "Bring the score to 0 to 1 in the check, if that is not meant.",
    ),
    "verifier_flaky": Code(
        "The verifiers, exactly as they were in the run, give another verdict on the same work.",
        "Look for time, chance or network in the test; such a verdict says little of the work.",
    ),
    "tamper_found": Code(
        "What could have changed the grade was found before a regrade, and put out of its way.",
        "Read the message, which names the path; it was in the saved work or in the image.",
    ),
}

Blame = Literal["agent", "verifier", "infrastructure", "user"]
BLAMES: dict[Blame, str] = {
    "agent": "the agent",
    "verifier": "the task's test or judge",
    "infrastructure": "the machine; a resume runs it again",
    "user": "whoever ran it",
}


class Category(NamedTuple):
    """What a category of error means, and who is at fault."""

    meaning: str
    next: str
    blame: Blame


CATEGORIES: dict[str, Category] = {
    "review_missing": Category(
        "A reviewer ended without writing its review; nothing is known of the trial's quality.",
        "Read the reviewer's output with `trialog logs` on its own run, then review again.",
        "agent",
    ),
    "review_malformed": Category(
        "A reviewer's answer does not have the form of a review: a criterion without a verdict, "
        "a word that is none of pass, fail and not_applicable, or a key that is not known.",
        "Read what is named; mend the reviewer or its prompt, and review again.",
        "agent",
    ),
    "review_unchecked": Category(
        "A reviewer's answer was not accepted by the check in its own sandbox.",
        "Look at verifier/test-stdout.txt of the reviewer's run; its image needs python3 >= 3.8.",
        "user",
    ),
    "review_cost_limit": Category(
        "The cost limit of the whole review was reached, or can't be held, so this trial's "
        "reviewer was not started.",
        "Review the trials that are left in another review, or all with a higher limit.",
        "user",
    ),
    "evidence_unreadable": Category(
        "What the log has of a reviewed trial is damaged, so that there is nothing to review.",
        "See what `trialog rebuild JOB --check` says; bring the log back from a copy.",
        "infrastructure",
    ),
    "evidence_open": Category(
        "What a reviewer is shown could not be made so that the reviewer can't change it.",
        "Run the review as root, or on Docker.",
        "infrastructure",
    ),
    "imported_error": Category(
        "The trial ended with an error in the system that it was imported from.",
        "Read the error with `trialog show TRIAL`; only that system can run the trial again.",
        "agent",
    ),
    "imported_unscored": Category(
        "The records of an imported trial have no score, or none that is a single number.",
        "Read what they have with `trialog show TRIAL`; score the trial in the system that ran "
        "it, and import the job again.",
        "verifier",
    ),
    "agent_install_failed": Category(
        "The agent's `install` command ended with a non-zero exit code, so it never got to work.",
        "Read its output with `trialog logs TRIAL`; mend agent.yaml, then `trialog run --from "
        "JOB`; or `trialog resume JOB --only agent_install_failed`, if the network was at fault.",
        "user",
    ),
    "agent_install_timeout": Category(
        "The agent's `install` command ran past install_timeout_sec and was stopped.",
        "Raise install_timeout_sec in agent.yaml, or bring what it fetches in the image; then "
        "`trialog run --from JOB`, or `trialog resume JOB --only agent_install_timeout`.",
        "user",
    ),
    "agent_setup_failed": Category(
        "The agent did not come up: it ended, refused or said nothing before it had been given "
        "the task.",
        "Read the error and `trialog logs TRIAL`: is its command there, does it want a key?",
        "user",
    ),
    "agent_failed": Category(
        "The agent answered with an error, or broke the protocol that it is spoken to by; its "
        "work was graded all the same.",
        "Read the error and the agent's output with `trialog logs TRIAL`.",
        "agent",
    ),
    "agent_refused": Category(
        "The agent refused the task; what it had done was graded all the same.",
        "Read what it said with `trialog replay TRIAL`.",
        "agent",
    ),
    "agent_limit": Category(
        "The agent stopped at a limit of its own on calls of its model; its work was graded all "
        "the same.",
        "Raise that limit in the agent's own settings.",
        "agent",
    ),
    "agent_exit": Category(
        "The agent's program ended with a non-zero exit code; its work was graded all the same.",
        "Read the agent's output with `trialog logs TRIAL`.",
        "agent",
    ),
    "agent_timeout": Category(
        "The agent ran past agent.timeout_sec and was stopped; its work was graded all the same.",
        "Raise agent.timeout_sec, or use --timeout-multiplier.",
        "agent",
    ),
    "idle_timeout": Category(
        "The agent printed and called nothing for agent.idle_timeout_sec and was stopped.",
        "Raise agent.idle_timeout_sec if the agent honestly works in silence.",
        "agent",
    ),
    "max_turns": Category(
        "The agent's model was called as often as it may be; the work was graded all the same.",
        "Raise --max-turns.",
        "agent",
    ),
    "max_seconds": Category(
        "The agent worked as long as --max-seconds lets it; the work was graded all the same.",
        "Raise --max-seconds.",
        "agent",
    ),
    "max_tokens": Category(
        "The agent's model used as many tokens as --max-tokens lets it; the work was graded all "
        "the same.",
        "Raise --max-tokens.",
        "agent",
    ),
    "max_cost": Category(
        "The agent's model cost as much as --max-cost lets it, or the endpoint did not say what a "
        "call used; the work was graded all the same.",
        "Read the error; raise --max-cost, or run without it.",
        "agent",
    ),
    "context_full": Category(
        "The conversation became longer than the agent's model can take; the work was graded all "
        "the same.",
        "Take a model of a longer context, or a lower --max-turns.",
        "agent",
    ),
    "reply_cut": Category(
        "The model's reply was cut off at its output limit and called no tool; the work was graded "
        "all the same.",
        "Raise the model's output limit, for example with --param max_completion_tokens=16000.",
        "agent",
    ),
    "model_failed": Category(
        "The agent's model could not be called: errors of the endpoint's, silence, or answers that "
        "are no chat completion.",
        "See that the endpoint works, then `trialog resume JOB`.",
        "infrastructure",
    ),
    "model_unavailable": Category(
        "No model can be had for the agent: the `openai` package or the key is missing, or the "
        "endpoint does not know the key or the model.",
        "Install the `openai` package, set OPENAI_API_KEY and OPENAI_BASE_URL, see --model; then "
        "`trialog resume JOB`.",
        "infrastructure",
    ),
    "model_rejected": Category(
        "The endpoint won't take the agent's request.",
        "Read the error; a parameter may not fit the model.",
        "user",
    ),
    "replay_differs": Category(
        "A replayed trial asked its model, or a judge, something else than the recorded trial did, "
        "so the record has no answer to it.",
        "Compare the two requests in the trial's replay/ folder; run without --replay-models to "
        "call the model.",
        "user",
    ),
    "sandbox_failed": Category(
        "The sandbox could not be made or used.",
        "Read the error; `trialog resume JOB` runs the trial again.",
        "infrastructure",
    ),
    "limits_refused": Category(
        "A limit of the task's can't be held here, and --strict-limits was given.",
        "Read the error; lower or remove the limit, or run without --strict-limits.",
        "user",
    ),
    "sandbox_unavailable": Category(
        "No sandbox can be had on this machine.",
        "Start a Docker engine, or install bubblewrap.",
        "infrastructure",
    ),
    "image_unavailable": Category(
        "The task's image is not there and can't be built or pulled.",
        "Build or pull it, then `trialog resume JOB`.",
        "infrastructure",
    ),
    "build_timeout": Category(
        "Building the task's image took longer than build_timeout_sec.",
        "Raise build_timeout_sec, then `trialog resume JOB`.",
        "infrastructure",
    ),
    "start_timeout": Category(
        "The sandbox did not come up in time.",
        "Look at the engine's load, then `trialog resume JOB`.",
        "infrastructure",
    ),
    "sandbox_lost": Category(
        "The sandbox went away while it was in use.",
        "`trialog resume JOB` runs the trial again.",
        "infrastructure",
    ),
    "save_timeout": Category(
        "Saving the workspace took too long.",
        "`trialog resume JOB` runs the trial again; a smaller workspace helps.",
        "infrastructure",
    ),
    "app_failed": Category(
        "An app of the environment raised in a hook of its own, or its process ended.",
        "Read the error, which names the app and the line; mend it, then run the task again.",
        "user",
    ),
    "app_timeout": Category(
        "An app of the environment did not come back from an action or hook within its deadline.",
        "Read the error, which names the app and the line; mend it, then run the task again.",
        "user",
    ),
    "world_gone": Category(
        "The engine stopped before a check had asked an app, and the app went away with it.",
        "`trialog resume JOB` runs the agent again.",
        "infrastructure",
    ),
    "reward_tampered": Category(
        "What the agent left where it could change the grade can't be removed, or not in time, so "
        "nothing was graded; the trial is not run again by itself.",
        "Read the error and the tamper entries in result.json; `trialog regrade JOB` grades the "
        "saved work elsewhere, a higher save_timeout_sec gives more time.",
        "agent",
    ),
    "verifier_digest_mismatch": Category(
        "The verifier's files are not those that the job recorded when it started.",
        "Find out who changed them; `trialog resume JOB` grades again from the job's snapshot.",
        "infrastructure",
    ),
    "transfer_failed": Category(
        "Files could not be brought into the sandbox or out of it.",
        "Read the error; `trialog resume JOB` grades the trial again.",
        "infrastructure",
    ),
    "work_too_large": Category(
        "The agent left more than may be brought to a verifier in a sandbox of its own, so nothing "
        "was graded. It is not tried again by itself, for it would be so again.",
        "If it is honest work, raise --workspace-cap-mb or declare smaller artifacts, then "
        "`trialog resume JOB --only work_too_large`.",
        "agent",
    ),
    "pytest_needs_python": Category(
        "The task asks for $TRIALOG_PYTEST, and its image has no python3 that could run it.",
        "Install a root-owned python3 of 3.8 or later in the image, in /usr/bin say.",
        "verifier",
    ),
    "pytest_guard_not_loaded": Category(
        "A task that asks for $TRIALOG_PYTEST ran another pytest in a way that kept the guard out.",
        "Run the tests with $TRIALOG_PYTEST, and no pytest under python3 -I; then run it again.",
        "verifier",
    ),
    "verifier_no_reward": Category(
        "The verifier wrote no usable reward, and --missing-reward error was given.",
        "Mend the test, then `trialog regrade JOB`.",
        "verifier",
    ),
    "log_unavailable": Category(
        "The log could not be written, for example because the disk is full.",
        "Make room, then `trialog resume JOB`.",
        "infrastructure",
    ),
    "host_failed": Category(
        "The machine that the engine runs on could not do what was needed; its disk is full, say.",
        "Read the error and mend it, then `trialog resume JOB`.",
        "infrastructure",
    ),
    "engine_fault": Category(
        "The engine itself failed; this is a fault of trialog's.",
        "Report it with the traceback; `trialog resume JOB` runs the trial again.",
        "infrastructure",
    ),
    "verifier_failed": Category(
        "A verifier's check raised, or gave what is no output, so there is no score.",
        "Read the error, which names the line in the file; mend it, then `trialog regrade JOB`.",
        "verifier",
    ),
    "verifier_timeout": Category(
        "A verifier's check ran past its timeout_sec and was stopped, so there is no score.",
        "Look at the line that it was at; raise timeout_sec if it is honestly slow.",
        "verifier",
    ),
    "judge_malformed": Category(
        "A judge's replies did not fit its rubric, though it was asked again, so it gave no score.",
        "Read the replies with `trialog replay TRIAL`; simplify the rubric or take another model.",
        "verifier",
    ),
    "judge_failed": Category(
        "A judge's endpoint gave no reply to any sample: errors, silence, or a refused request.",
        "Read the error; where the endpoint was at fault, `trialog resume JOB` judges again.",
        "infrastructure",
    ),
    "judge_unavailable": Category(
        "No judge can be had: the `openai` package or the key is missing, or the endpoint does "
        "not know the key or the model.",
        "Install the `openai` package; set TRIALOG_JUDGE_API_KEY and TRIALOG_JUDGE_BASE_URL, or "
        "OPENAI_API_KEY and OPENAI_BASE_URL; see docs/judges.md.",
        "infrastructure",
    ),
    "judge_cost_limit": Category(
        "A cost limit on judges was reached, or can't be held, so a judge was not asked.",
        "Raise it: `trialog resume JOB --judge-max-cost USD`, or max_cost in verifier.yaml.",
        "user",
    ),
    "cancelled": Category(
        "The trial was cancelled before its end.",
        "`trialog run --from JOB` starts anew.",
        "user",
    ),
    "not_finished": Category(
        "The trial has no result yet, so it can't be regraded.",
        "Finish it (`trialog resume JOB`, `trialog human list`), then regrade again.",
        "user",
    ),
    "no_work": Category(
        "The agent left no work, so there is nothing to regrade.",
        "`trialog resume JOB --only errored` runs the trial again.",
        "infrastructure",
    ),
    "task_gone": Category(
        "The trial's task is not where it was, so there is no verifier of today.",
        "Name another place with --tasks-root DIR, or use the run's own with --as-of-run.",
        "user",
    ),
    "service_gone": Category(
        "The trial is graded by a service that its agent left running, which is long gone.",
        "Run the trial again: `trialog run --from JOB`.",
        "user",
    ),
    "artifact_lost": Category(
        "A trial can't be regraded: a file outside its workspace that is graded was not saved.",
        "Run the trial again; what stood in the way of saving it is in the trial's warnings.",
        "agent",
    ),
    "no_saved_workspace": Category(
        "The trial's workspace was not saved: it was too large, or --no-save-outputs was given.",
        "Run the trial again with its workspace saved.",
        "user",
    ),
    "workspace_pruned": Category(
        "The trial's saved workspace was given up to free disk.",
        "Bring it back from a backup or a bundle, or run the trial again.",
        "user",
    ),
    "blob_missing": Category(
        "Bytes that the log names are not in the blob store.",
        "Bring the blob back from a backup; `trialog rebuild JOB --check` names all that lack.",
        "infrastructure",
    ),
    "blob_altered": Category(
        "Bytes in the blob store are not those that the log names.",
        "Bring the blob back from a backup; `trialog rebuild JOB --check` names all such.",
        "infrastructure",
    ),
    "image_gone": Category(
        "The image that the trial's work was made in can't be had for the regrade.",
        "Bring the image of that digest back, or regrade in another sandbox (--sandbox).",
        "infrastructure",
    ),
    "no_recorded_state": Category(
        "The trial has no recorded episode that functions could be run on.",
        "Run the trial again.",
        "user",
    ),
    "no_recorded_replies": Category(
        "The trial has no recorded replies of a judge that could be read again.",
        "Ask the judge's model with --call-models.",
        "user",
    ),
    "no_recorded_review": Category(
        "A person is to score the trial, and none has.",
        "Take the person out of the task's verifiers, or run the trial again.",
        "user",
    ),
    "no_recorded_score": Category(
        "A verifier that is not to run again (--verifier-only) has no score that could be kept.",
        "Regrade without --verifier-only.",
        "user",
    ),
    "trial_unreadable": Category(
        "The trial's events can't be read: a later release wrote them, or they were altered.",
        "Use the release that wrote them; `trialog rebuild JOB --check` says what is wrong.",
        "user",
    ),
}
