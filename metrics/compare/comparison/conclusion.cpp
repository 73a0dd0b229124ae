#include "metrics/compare/comparison/conclusion.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "metrics/compare/comparison/comparison.hpp"
#include "metrics/compare/comparison/why.hpp"
#include "metrics/text.hpp"

namespace weir::metrics::compare::comparison {
namespace {

using statistics::Figure;
using statistics::Finding;

bool is(const Comparison& comparison, Figure figure, Finding finding) {
  const auto* const verdict = comparison.verdict_of(figure);
  return verdict != nullptr && verdict->finding == finding;
}

/// True if one of the sentences is about what has this name: it begins with the name and a colon.
bool is_among(std::string_view name, const std::vector<std::string>& sentences) {
  return std::ranges::any_of(sentences, [&](std::string_view one) { return one.substr(0, one.find(':')) == name; });
}

bool any_time(const Comparison& comparison, Finding finding) {
  return std::ranges::any_of(comparison.verdicts, [&](const Verdict& one) {
    return one.finding == finding && is_latency(one.figure) && one.figure != Figure::stalls;
  });
}

std::string fault_text(const FaultVerdict& fault) {
  return std::string(word_for(fault.fault)) +
         fmt::format(" from {:.2f} to {:.2f} %", 100 * fault.share_a(), 100 * fault.share_b());
}

std::string figure_text(const Verdict& verdict) {
  std::string text = std::string(word_for(verdict.figure)) + " from " +
                     values_text(verdict.figure, *verdict.value_a, *verdict.value_b);
  return verdict.figure == Figure::stalls ? text : text + " (" + signed_percent(*verdict.estimate) + ')';
}

/// "TPOT from 27.2 to 31.5 ms (+14.1 %)" for each figure that is told: what is worse comes first, then what makes
/// answers differ.
std::vector<std::string> told_figures(const Comparison& comparison, const std::vector<std::string>& unknown) {
  std::vector<std::string> worse, differing, others;
  for (const auto& fault : comparison.faults) {
    if (fault.finding == Finding::worse) worse.push_back(fault_text(fault));
    if (fault.finding == Finding::better ||
        (is_among(name_of(fault.fault), unknown) && fault.share_b() > fault.share_a()))
      others.push_back(fault_text(fault));
  }
  const bool any_stream = comparison.verdict_of(Figure::ttft) && comparison.verdict_of(Figure::ttft)->count > 0;
  for (const auto& verdict : comparison.verdicts) {
    if (!verdict.value_a || !verdict.value_b) continue;
    // A geometric mean tells nothing more where the mean tells the same.
    if ((verdict.figure == Figure::ttft_geomean && is(comparison, Figure::ttft, verdict.finding)) ||
        (verdict.figure == Figure::tpot_geomean && is(comparison, Figure::tpot, verdict.finding)))
      continue;
    const bool always = verdict.figure == Figure::ttft || verdict.figure == Figure::tpot ||
                        (verdict.figure == Figure::e2e && !any_stream);
    const bool differs = verdict.finding == Finding::longer || verdict.finding == Finding::shorter;
    const bool stalls = verdict.figure == Figure::stalls && is_among(name_of(verdict.figure), unknown) &&
                        *verdict.value_b > *verdict.value_a;
    if (verdict.finding == Finding::worse)
      worse.push_back(figure_text(verdict));
    else if (differs)
      differing.push_back(figure_text(verdict));
    else if (always || stalls || verdict.finding == Finding::better)
      others.push_back(figure_text(verdict));
  }
  worse.insert(worse.end(), differing.begin(), differing.end());
  worse.insert(worse.end(), others.begin(), others.end());
  return worse;
}

/// Returns the change that decides: one that is a verdict before one that is to be looked at.
const Changed* change_for_the_worse(const Comparison& comparison) {
  const Changed* found = nullptr;
  for (const Changed& one : comparison.changes)
    if (one.by > 0 && (found == nullptr || (found->after < sure_change && one.after >= sure_change))) found = &one;
  return found;
}

/// "A, B and C"
std::string listed(const std::vector<std::string_view>& words, std::string_view last = " and ") {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text.append(i == 0 ? "" : i + 1 == words.size() ? last : ", ").append(words[i]);
  return text;
}

/// Says what is worse, in one word where there is one.
std::string worse_word(const Comparison& comparison) {
  const auto fault = [&](pairs::Fault one) {
    const auto* const found = comparison.fault_of(one);
    return found != nullptr && found->finding == Finding::worse;
  };
  std::vector<std::string_view> words;
  if (fault(pairs::Fault::failed)) words.emplace_back("fails more often");
  if (fault(pairs::Fault::empty)) words.emplace_back("answers with nothing more often");
  if (fault(pairs::Fault::length)) words.emplace_back("runs into the limit of tokens more often");
  if (fault(pairs::Fault::tools)) words.emplace_back("calls tools wrongly more often");
  if (any_time(comparison, Finding::worse)) words.emplace_back("is slower");
  if (is(comparison, Figure::stalls, Finding::worse)) words.emplace_back("stands still longer");
  if (fault(pairs::Fault::slo)) words.emplace_back("misses the objective more often");
  const auto* const changed = change_for_the_worse(comparison);
  const std::string since = changed ? "became slower at " + time_of_day(changed->since_us).substr(0, 5) + " (" +
                                          std::string(word_for(changed->figure)) + ' ' + signed_percent(changed->by) +
                                          " since then)"
                                    : std::string();
  if (changed && changed->after >= sure_change) words.emplace_back(since);
  return listed(words);
}

/// Figures and faults of which it is not known that b is not worse.
struct Guardrails {
  std::vector<std::string_view> likely;   ///< b is worse by its interval, which is not enough among all figures.
  std::vector<std::string_view> unseen;   ///< Faults that b has not had alone.
  std::vector<std::string_view> nowhere;  ///< Figures that no request has on both sides.
  std::vector<std::string_view> others;

  /// Returns those of which something is known.
  std::vector<std::string_view> all() const {
    auto words = likely;
    words.insert(words.end(), others.begin(), others.end());
    words.insert(words.end(), unseen.begin(), unseen.end());
    return words;
  }
};

/// Reads sentences that begin with a name and a colon.
Guardrails open_guardrails(const Comparison& comparison, const std::vector<std::string>& unknown) {
  Guardrails open;
  for (const auto& fault : comparison.faults)
    if (is_among(name_of(fault.fault), unknown))
      (fault.pairs.pairs > 0 && fault.pairs.only_b == 0 ? open.unseen : open.others).push_back(word_for(fault.fault));
  for (const auto& verdict : comparison.verdicts) {
    if (!is_among(name_of(verdict.figure), unknown)) continue;
    const bool above = verdict.interval && verdict.interval->low > 0 && verdict.held_back && verdict.estimate > 0;
    (above                           ? open.likely
     : verdict.bar == Bar::no_values ? open.nowhere
                                     : open.others)
        .push_back(word_for(verdict.figure));
  }
  return open;
}

std::string not_known_text(const Comparison& comparison, const Guardrails& open) {
  const std::string &a = comparison.a, &b = comparison.b;
  std::string text;
  const auto add = [&](const std::string& part) { text.append(text.empty() ? "" : ", and ").append(part); };
  if (!open.likely.empty())
    add(b + " looks worse than " + a + " in " + listed(open.likely) + ", which is not sure yet");
  if (!open.others.empty()) add("not known yet whether " + b + " is worse than " + a + " in " + listed(open.others));
  if (!open.nowhere.empty()) add("no request has " + listed(open.nowhere) + " on both sides");
  if (!open.unseen.empty())
    add("too few requests yet to rule out " + listed(open.unseen, " or ") + ", of which " + b + " alone had none");
  return text;
}

/// "at most 7.4 % slower": by the intervals of TTFT, of TPOT, or of E2E where nothing is streamed.
std::string at_most_slower(const Comparison& comparison) {
  double most = 0;
  for (const auto figure : {Figure::ttft, Figure::tpot, Figure::e2e})
    if (const auto* const verdict = comparison.verdict_of(figure); verdict != nullptr && verdict->interval)
      most = std::max(most, verdict->interval->high);
  return most > 0 ? fmt::format(", at most {:.1f} % slower", 100 * most) : "";
}

std::string likeness(const Comparison& comparison) {
  if (comparison.mode == pairs::Mode::split) return {};
  switch (comparison.answers.word) {
    case pairs::Alike::same:
      return "answers are the same";
    case pairs::Alike::differs:
      return "answers differ: " + comparison.answers.why;
    case pairs::Alike::unknown:
      break;
  }
  if (comparison.mode != pairs::Mode::control) return "answers were not compared, which takes a control";
  return comparison.sameness.compared == 0 ? "answers were not compared, as no request was greedy (temperature 0)"
                                           : "not known yet whether answers are the same";
}

/// The guardrails that are not known.
struct Open {
  double longest_s = 0;               ///< The window that the longest of them takes.
  std::vector<std::string> for_ever;  ///< Those that waiting does not tell, or not within a day.
};

Open open_of(const Comparison& comparison, const std::vector<std::string>& unknown) {
  constexpr double day_s = 86400;
  Open open;
  for (const std::string& sentence : unknown) {
    const auto name = std::string_view(sentence).substr(0, sentence.find(':'));
    std::optional<double> needs;
    for (const auto& verdict : comparison.verdicts)
      if (name_of(verdict.figure) == name) needs = verdict.needs_s;
    for (const auto& fault : comparison.faults)
      if (name_of(fault.fault) == name) needs = fault.needs_s;
    if (needs && *needs - comparison.window.seconds() < day_s)
      open.longest_s = std::max(open.longest_s, *needs);
    else
      open.for_ever.push_back(sentence);
  }
  return open;
}

/// An action and its reason: two halves of a sentence.
struct Advice {
  std::string what, why;
};

Advice of_conversations(const Comparison& comparison) {
  const std::uint64_t fewer = std::min(comparison.conversations_a, comparison.conversations_b);
  const std::string number = "there are " + std::to_string(comparison.conversations_a) + " of " + comparison.a +
                             " and " + std::to_string(comparison.conversations_b) + " of " + comparison.b +
                             ", and it takes " + std::to_string(least_conversations) + " of each";
  // Clients that stay bring no others.
  if (fewer > 1 || comparison.minutes < statistics::least_minutes_to_pass)
    return {"Wait for more conversations", number};
  return {"Let more clients ask, or mirror their requests (twin)", "a split draws whole conversations: " + number};
}

Advice of_unknown(const Comparison& comparison, const std::vector<std::string>& unknown) {
  const std::string &a = comparison.a, &b = comparison.b;
  if (!comparison.dropped.empty())
    return {"Mirror some requests", "nothing was mirrored, the shadow was spared " +
                                        sides::counts_text(comparison.dropped) + ". " +
                                        sides::help_against(comparison.dropped)};
  if (comparison.unfilled) return {"Wait until the shadow is warm", shortfall(*comparison.unfilled)};
  if (const auto* const changed = change_for_the_worse(comparison))
    return {"Do not promote yet", b + " became worse at " + time_of_day(changed->since_us).substr(0, 5) + " (" +
                                      std::string(word_for(changed->figure)) + ' ' + signed_percent(changed->by) +
                                      " since then); find out what happened, and compare again from there (--from)"};
  if (!comparison.answers.why.empty() && comparison.answers.word == pairs::Alike::differs)
    return {"Look at the answers of " + b + " before you promote", "they differ from those of " + a};
  if (const auto* const failed = comparison.fault_of(pairs::Fault::failed);
      failed != nullptr && failed->pairs.pairs > 0 && std::min(failed->share_a(), failed->share_b()) > 0.999)
    return {"Find out why requests fail", "neither side answered"};
  if (comparison.has_several_answers())
    return {"Name one shadow or replica (--a, --b)",
            "one side has several answers to a request, and only the first counts"};
  const std::string not_known = not_known_text(comparison, open_guardrails(comparison, unknown));
  const auto bar = [&](Bar one) {
    return std::ranges::any_of(comparison.verdicts, [&](const Verdict& verdict) { return verdict.bar == one; });
  };
  if (bar(Bar::load_differs)) return {"Mirror all requests of one replica (twin)", "the sides had unlike loads"};
  if (bar(Bar::conversations)) return of_conversations(comparison);
  if (bar(Bar::other_tokens))
    return {"Compare E2E and characters",
            "the sides count tokens differently, so TPOT and tokens per answer tell "
            "nothing (see the notes)"};
  if (bar(Bar::lacking))
    return {"Find out why one side lacks figures", "its answers lack what those of the other have (see the notes)"};
  if (bar(Bar::spared_load)) return {"Find out why one side lacks answers", "it was spared their load (see the notes)"};
  const double window_s = comparison.window.seconds();
  const auto wait_until = [&](double until_s) {
    return "Wait " + length_text(std::max(60.0, until_s - window_s)) + " more";
  };
  const Open open = open_of(comparison, unknown);
  const bool early = comparison.minutes < statistics::least_minutes_to_pass;
  if (early && comparison.minutes <= 0) return {"Wait for requests of both sides", not_known};
  // Ten minutes are the least, in which nothing is known to be chance or not.
  const double ten_minutes_s = length_in_minutes_s(comparison) * statistics::least_minutes_to_pass / comparison.minutes;
  if (early)
    return {wait_until(std::max(open.longest_s, ten_minutes_s)),
            fmt::format("it is too early to tell, which takes {:.0f} minutes with requests of both sides at least",
                        statistics::least_minutes_to_pass)};
  if (open.for_ever.empty()) return {wait_until(open.longest_s), not_known};
  const Guardrails never = open_guardrails(comparison, open.for_ever);
  std::string why;
  if (const auto known = never.all(); !known.empty())
    why = b + " is or may be worse than the limit in " + listed(known) + ", and ";
  if (!never.nowhere.empty()) why += "no request has " + listed(never.nowhere) + " on both sides, and ";
  return {"Look before you promote", why + "waiting alone will not tell"};
}

Advice of_one_configuration(const Comparison& comparison, const GateResult& gate) {
  std::string why = comparison.b + " is the same configuration as " + comparison.a;
  if (comparison.only_configuration) why += ", and no other is in the logs";
  if (gate.word == Gate::worse) why += "; it " + worse_word(comparison);
  if (!comparison.other_drops.empty())
    why += "; other shadows were spared " + sides::counts_text(comparison.other_drops);
  return {"Nothing to promote", why};
}

Advice advice_of(const Comparison& comparison, const GateResult& gate) {
  const std::string &a = comparison.a, &b = comparison.b;
  if (comparison.apart)
    return {"Run " + a + " and " + b + " at the same time", "they did not run together, so there is no verdict"};
  if (comparison.one_configuration) return of_one_configuration(comparison, gate);
  if (gate.word == Gate::worse) return {"Do not promote " + b, "it " + worse_word(comparison)};
  if (gate.word == Gate::unknown) return of_unknown(comparison, gate.unknown);
  const bool judged = comparison.mode == pairs::Mode::split || comparison.answers.word == pairs::Alike::same;
  return {judged ? "May be promoted" : "May be promoted, if its answers are as good",
          any_time(comparison, Finding::better) ? b + " is faster than " + a
                                                : b + " is not worse than " + a + at_most_slower(comparison)};
}

}  // namespace

std::string conclusion_of(const Comparison& comparison, const GateResult& gate) {
  const auto [what, why] = advice_of(comparison, gate);
  std::string line = what + ": " + why;
  std::string_view before = ": ";
  for (const auto& figure : told_figures(comparison, gate.unknown)) {
    line.append(before).append(figure);
    before = ", ";
  }
  if (const auto text = likeness(comparison); !text.empty()) line += "; " + text;
  return line + '.';
}

namespace {

/// A margin that an option widened may hold more than b may be worse by.
bool is_safe(const Verdict& verdict) {
  const bool has_margin = verdict.effect.worse_margin.has_value();
  return verdict.finding == Finding::better || verdict.finding == Finding::not_worse ||
         (verdict.finding == Finding::equivalent &&
          (!has_margin || verdict.effect.margin.high <= *verdict.effect.worse_margin ||
           is_below_worse_margin(verdict.effect)));
}

/// Returns how many answers of a side have the figure, of the side with more of them.
std::uint64_t answers_with(const Comparison& comparison, Figure figure) {
  const auto* const verdict = comparison.verdict_of(figure);
  const auto& had = comparison.had_of(figure);
  return std::max({verdict == nullptr ? 0 : verdict->count, had.a, had.b});
}

/// True if b has to be known not to be worse in this figure. A handful of streams among thousands of other answers
/// does not tell for days, and does not count.
bool is_guardrail(const Comparison& comparison, Figure figure) {
  if (figure == Figure::output_tokens || figure == Figure::stalls) return true;
  const auto streamed = answers_with(comparison, Figure::ttft), whole = answers_with(comparison, Figure::e2e);
  if (figure == Figure::e2e) return whole > streamed;
  return 100 * std::min(streamed, answers_with(comparison, figure)) >= streamed + whole;
}

}  // namespace

GateResult gate_of(const Comparison& comparison) {
  GateResult result;
  const auto add = [&](std::string_view name, Finding finding, bool open, const std::string& sentence) {
    if (finding == Finding::worse || open)
      (finding == Finding::worse ? result.worse : result.unknown).push_back(std::string(name) + ": " + sentence);
  };
  for (const FaultVerdict& fault : comparison.faults) {
    const bool told = fault.pairs.pairs > 0 || fault.fault == pairs::Fault::failed;
    const bool safe = fault.finding == Finding::better || fault.finding == Finding::not_worse;
    if (told) add(name_of(fault.fault), fault.finding, !safe, why(fault, comparison));
  }
  for (const Verdict& verdict : comparison.verdicts) {
    const bool differs = verdict.finding == Finding::longer || verdict.finding == Finding::shorter;
    // The sentence about answers tells that of pairs.
    if (differs && comparison.mode != pairs::Mode::split) continue;
    add(name_of(verdict.figure), verdict.finding, is_guardrail(comparison, verdict.figure) && !is_safe(verdict),
        why(verdict, comparison));
  }
  for (const Changed& changed : comparison.changes)
    if (changed.by > 0)
      add("changed", changed.after >= sure_change ? Finding::worse : Finding::inconclusive, true,
          change_sentence(changed, comparison));
  if (comparison.has_several_answers())
    result.unknown.push_back("shadows: one side has several answers to " + std::to_string(comparison.repeated) +
                             " requests, and the first of each counts; name one shadow or replica.");
  if (comparison.one_configuration)
    result.unknown.emplace_back("configuration: both sides are of one, so nothing is to be promoted.");
  if (!result.worse.empty())
    result.but_for_answers = Gate::worse;
  else if (result.unknown.empty() && !comparison.verdicts.empty())
    result.but_for_answers = Gate::pass;
  result.word = result.but_for_answers;
  if (comparison.answers.word != pairs::Alike::differs) return result;
  result.answers = "answers: " + why(comparison.answers, comparison);
  result.unknown.push_back(result.answers);
  if (result.word == Gate::pass) result.word = Gate::unknown;
  return result;
}

}  // namespace weir::metrics::compare::comparison
