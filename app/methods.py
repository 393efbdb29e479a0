"""What each method is, in words: three sentences, the papers, why it is exact. Plain data.

Knows prose; knows no run, no file and no number that was measured. Facts follow the papers named.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """One method's card: a sentence each on what it does, on what a round costs, and on when it wins and loses."""

    does: str
    costs: str
    wins: str
    exact: str  # by which rule, and why
    papers: tuple[tuple[str, str], ...]  # (title, arXiv number, or empty)

    @property
    def sentences(self) -> tuple[str, str, str]:
        """All three, in reading order."""
        return self.does, self.costs, self.wins


RATIO = (
    "The default test keeps a drafted x with chance min(1, p/q), and after a refusal draws from what p still lacks, "
    "max(0, p − q), normalised: together exactly p."
)
WALK = (
    "The tree is fixed before the target draws. At each node it then draws its own token and goes down while that is a "
    "child, so every token is a draw from p, whatever stands in the tree."
)

WORDS: dict[str, Words] = {
    "vanilla": Words(
        does="The target writes alone, one token after the other.",
        costs="A round is one pass of the target over one position, and yields one token.",
        wins="It is the clock that all others are held against, and it wins where drafts are rarely accepted or where "
        "reading γ + 1 positions costs much more than reading one.",
        exact="It is the law itself: what all others must keep.",
        papers=(("Plain sampling, no paper", ""),),
    ),
    "autoregressive": Words(
        does="A small model of the target’s own kind drafts γ tokens one by one, and the target tests them all in one "
        "pass.",
        costs="A round is γ small passes and one pass of the target over γ + 1 positions.",
        wins="It wins while the small model is cheap and agrees with the target, and loses with wide windows, because "
        "its passes add up with γ.",
        exact=f"{RATIO} Each token was drawn from the q that it is tested with, given all tokens to its left.",
        papers=(("Leviathan et al.", "2211.17192"), ("Chen et al.", "2302.01318")),
    ),
    "prompt_lookup": Words(
        does="Where the text ends in words that it has already used, it copies what followed them the last time.",
        costs="A round is a search of the text and one pass of the target, with no drafter pass at all.",
        wins="It wins where answers repeat their prompt, as summaries, edits and code do, and is plain decoding where "
        "nothing repeats.",
        exact="A copy is a point mass: x is kept with chance p(x), and after a refusal the target draws from p without "
        "x. Both together give p.",
        papers=(("Saxena 2023, prompt lookup decoding", ""),),
    ),
    "specdiff": Words(
        does="A masked diffusion model fills a window of γ masks in T passes, all positions side by side.",
        costs="A round is T passes of a denoiser that reads the whole context again each time, and one pass of the "
        "target over γ + 1 positions.",
        wins="It wins because a window of any width takes the same few passes, and loses at late positions, where "
        "tokens that were drawn side by side no longer fit each other.",
        exact=f"{RATIO} With T = 1, or revealed from left to right, q is the law that x was drawn from. In other "
        "orders a token revealed before one to its left is tested as a point mass instead.",
        papers=(("Christopher et al.", "2408.05636"), ("the denoiser: Sahoo et al.", "2406.07524")),
    ),
    "specdiff2": Words(
        does="The same denoiser is trained for the length of the run that survives (streak-distillation), and the "
        "target picks the best of K drafts before it tests one (self-selection).",
        costs="A round is one drafter pass and one pass of the target over at most K · γ + 1 positions.",
        wins="It wins where the target reads many positions nearly for free, as on a GPU, and loses on few cores, "
        "where each further draft has to be paid for.",
        exact="The choice may look at p, so the winner is tested as a point mass: kept with chance p(x), and after a "
        "refusal p without x. The ratio test would be biased here, because chosen drafts no longer follow q.",
        papers=(("Sandler et al.", "2511.00606"),),
    ),
    "dflash": Words(
        does="A small diffusion model denoises the next block while it reads the target’s own hidden states, and "
        "borrows the target’s embedding and head.",
        costs="A round is one pass of a few layers over γ + 1 positions, and one pass of the target over as many.",
        wins="It wins because the target has already thought about the context for it, and loses where text is so "
        "open that no position is sure before its left neighbour is known.",
        exact=f"{RATIO} One pass draws every position from its own q, so the test holds. (The paper drafts the most "
        "probable tokens and keeps those that the target draws too: exact as well, accepted less often when sampling.)",
        papers=(("DFlash", "2602.06036"),),
    ),
    "ddtree": Words(
        does="One pass of the block drafter gives a law for every position, and the most probable prefixes under "
        "these laws become a draft tree of B nodes.",
        costs="A round is one drafter pass and one pass of the target over B + 1 positions, each of which sees only "
        "its own branch.",
        wins="It wins where the second guess is often the right one, and loses where reading B more positions costs "
        "more than the tokens they save.",
        exact=WALK,
        papers=(("DDTree", "2604.12989"), ("on the drafter of DFlash", "2602.06036")),
    ),
    "markov": Words(
        does="The block drafter makes its one pass, and a small head then says of every two neighbouring candidates "
        "how well the second follows the first: each token is drawn given the one before it, not by itself.",
        costs="A round is one pass of a few layers over γ + 1 positions, a small network over pairs of candidates, and "
        "one pass of the target over γ + 1 positions.",
        wins="It wins where tokens that were drawn side by side would not fit each other, and loses the price of its "
        "head where every position is sure by itself.",
        exact=f"{RATIO} The chain is drawn from left to right, so q is the law given the token before, and zero "
        "outside the candidates: that q is what the test uses.",
        papers=(
            ("DSpark, here with the target’s own head instead of a low-rank bias", "2607.05147"),
            ("on the drafter of DFlash", "2602.06036"),
        ),
    ),
    "markov_tree": Words(
        does="The Markov head says what follows each candidate, and the B prefixes whose tokens are most probably all "
        "right become the draft tree: a second guess goes on with what fits it.",
        costs="A round is one drafter pass, a small network over pairs of candidates, and one pass of the target over "
        "B + 1 positions, each of which sees only its own branch.",
        wins="It wins where the second guess is often the right one, because its branch fits it, and loses where "
        "reading B more positions costs more than the tokens they save.",
        exact=WALK,
        papers=(("the head of DSpark", "2607.05147"), ("the tree of DDTree", "2604.12989")),
    ),
    "auto": Words(
        does="The block drafter fills its whole window, and a controller cuts the draft where a further position would "
        "bring fewer tokens than its row in the target’s pass costs.",
        costs="A round is one drafter pass and one pass of the target over as many positions as are worth it, by "
        "running estimates of acceptance and of both costs.",
        wins="It wins where sure and unsure places alternate, and loses a little at the start, while it does not yet "
        "know what things cost.",
        exact=f"{RATIO} What is chosen before a draft looks at the past only, and a cut looks at the drafter’s laws, "
        "never at a drawn value, so the test still holds.",
        papers=(("This project’s rule, on the costs of Christopher et al.", "2408.05636"),),
    ),
    "eagle": Words(
        does="One decoder layer guesses the target’s next feature, the state just below its head, and the target’s own "
        "head turns the guess into a token, one after the other.",
        costs="A round is γ passes of that one layer, each with the whole vocabulary head, and one pass of the target "
        "over γ + 1 positions.",
        wins="It wins because features are easier to continue than text, and loses with wide windows, because its "
        "passes add up and its guesses feed on each other.",
        exact=f"{RATIO} Each token was drawn from the q that it is tested with. (The paper drafts a fixed tree; here "
        "it is a chain, and EAGLE-2 is the tree.)",
        papers=(("Li et al., EAGLE", "2401.15077"),),
    ),
    "eagle2": Words(
        does="The same layer grows a draft tree: at each depth the prefixes with the largest cumulative probability "
        "are continued, and the best nodes of all depths are kept.",
        costs="A round is one pass of the layer for each depth and one pass of the target over the nodes that were "
        "kept, each of which sees only its own branch.",
        wins="It wins over a chain where the drafter knows when it is unsure and spends its nodes there, and loses "
        "where those nodes cost more than the tokens they save.",
        exact=WALK,
        papers=(("Li et al., EAGLE-2", "2406.16858"),),
    ),
}
"""Method -> its words. Some are here before their drafter is: the page shows what a pair has."""
