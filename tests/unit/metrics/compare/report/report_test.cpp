#include "metrics/compare/report/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <random>
#include <vector>

#include "tests/unit/metrics/compare/described_samples.hpp"

namespace weir::metrics::compare::report {
namespace {

namespace json = boost::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Half an hour of pairs, one every two seconds, after ten minutes in which the shadow is cold.
class ReportOfATwin : public ::testing::Test {
 protected:
  ReportOfATwin() {
    options.comparison.a = {sides::By::config, fp16, Role::primary};
    options.comparison.b = {sides::By::config, fp8, Role::primary};
    options.comparison.slo.emplace();
    options.comparison.slo->ttft_client = config::Seconds(1.5);
    options.comparison.slo->tpot = config::Seconds(0.02);
  }

  /// `change` alters the shadow's sample by the number of its pair.
  template <class Change>
  void add_pairs(Change change) {
    std::mt19937 random(11);
    std::normal_distribution<float> noise(0, 0.01F);
    for (int i = 0; i < 1200; ++i) {
      auto a = stream_at(2.0 * i, gpu0);
      a.config = fp16;
      a.id = {1, static_cast<std::uint64_t>(i + 1)};
      a.group = static_cast<std::uint64_t>(i + 1);
      a.turn = 1 + static_cast<std::uint32_t>(i % 2);
      a.prompt_tokens = i % 2 == 0 ? 500 : 5000;
      a.output_chars = 400;
      a.group = static_cast<std::uint64_t>(i + 1);
      auto b = a;
      b.role = Role::shadow;
      b.replica = cand0;
      b.config = fp8;
      b.id = {2, static_cast<std::uint64_t>(i + 1)};
      b.pair = a.id;
      b.shadow = names.of("candidate");
      for (auto* one : {&a, &b}) {
        one->ttft *= std::exp(noise(random));
        one->tpot *= std::exp(noise(random));
      }
      change(b, i);
      samples.push_back(a);
      samples.push_back(b);
    }
  }
  Report report() const { return make_report(samples, names, options); }
  json::object parsed() const { return json::parse(as_json(report())).as_object(); }

  samples::Names names;
  samples::Names::Name gpu0 = names.of("gpu0"), cand0 = names.of("cand0"), fp16 = names.of("fp16"),
                       fp8 = names.of("fp8");
  std::vector<samples::Sample> samples;
  ReportOptions options;
};

TEST_F(ReportOfATwin, HasTheMembersThatOtherProgramsRead) {
  add_pairs([](samples::Sample& b, int) { b.tpot *= 1.1F; });
  options.comparison.to_us = samples.back().received_us + 1;
  const auto said = parsed();
  EXPECT_EQ(said.at("v"), 1);
  EXPECT_EQ(said.at("state"), "final");
  EXPECT_EQ(said.at("pairs"), 900);
  for (const auto* const member : {"from", "to", "minutes"})
    EXPECT_TRUE(said.at("window").as_object().contains(member));
  for (const auto* const member : {"name", "role", "requests", "outcomes", "rpm", "slo_attainment", "ttft_s", "itl_s",
                                   "tpot_s", "e2e_s", "output_tokens_per_second", "total_tokens_per_second",
                                   "in_flight_mean", "cost_per_million_output_tokens", "capacity_at_slo"}) {
    EXPECT_TRUE(said.at("sides").at(0).as_object().contains(member)) << member;
  }
  for (const auto* const member : {"count", "p50", "p90", "p95", "p99"})
    EXPECT_TRUE(said.at("sides").at(0).at("ttft_s").as_object().contains(member));
  bool found = false;
  for (const auto& verdict : said.at("verdicts").as_array()) {
    for (const auto* const member :
         {"metric", "value_a", "value_b", "estimate", "interval", "margin", "verdict", "why", "needs_s"})
      EXPECT_TRUE(verdict.as_object().contains(member)) << member;
    if (verdict.at("metric") != "tpot") continue;
    found = true;
    EXPECT_EQ(verdict.at("verdict"), "worse");
    EXPECT_NEAR(verdict.at("estimate").as_double(), 0.1, 0.005);
    EXPECT_EQ(verdict.at("interval").as_array().size(), 2U);
  }
  EXPECT_TRUE(found);
  for (const auto& note : said.at("notes").as_array()) EXPECT_TRUE(note.is_string());
  EXPECT_EQ(said.at("notes").as_array().size(), said.at("note_sentences").as_array().size());
}

TEST_F(ReportOfATwin, SaysWhichSideHasFaults) {
  add_pairs([](samples::Sample& b, int i) {
    if (i % 100 == 0) {
      b.outcome = Outcome::timeout;
      b.served = false;
    }
    if (i % 300 == 1) b.outcome = Outcome::ok_empty;
  });
  const auto said = parsed();
  const auto& faults = said.at("faults").as_array();
  ASSERT_EQ(faults.size(), 5U);
  EXPECT_EQ(faults[0].at("fault"), "failed");
  EXPECT_EQ(faults[0].at("verdict"), "worse");
  EXPECT_EQ(faults[0].at("only_b"), 12);
  EXPECT_EQ(faults[0].at("only_a"), 0);
  EXPECT_EQ(faults[0].at("pairs"), 1200) << "the shadow was cold at first";
  EXPECT_GT(faults[0].at("evidence_more_in_b").to_number<double>(), 100);
  EXPECT_EQ(faults[0].at("causes_b"), 12);
  EXPECT_EQ(faults[0].at("difference").as_array().size(), 2U);
  EXPECT_EQ(faults[1].at("verdict"), "inconclusive");
  EXPECT_EQ(faults[3].at("why"), "no pair of answers tells it.");
  const auto text = as_text(report(), Style::markdown);
  EXPECT_THAT(text, HasSubstr("failed: of 1200 pairs, 12 of fp8 alone, 0 of fp16 alone, 0 of both: +1.00 points ("));
  EXPECT_THAT(text, HasSubstr("; evidence against chance that fp8 has more: "));
  EXPECT_THAT(text, HasSubstr("empty: of 1188 pairs, 4 of fp8 alone"));
  EXPECT_THAT(text, HasSubstr("not clearly below the margin of 0.20 points"));
  EXPECT_THAT(text, Not(HasSubstr("\n- tools: ")));
}

TEST_F(ReportOfATwin, SaysWhetherTheAnswersAreTheSame) {
  add_pairs([](samples::Sample& b, int) { b.same_text = 0; });
  EXPECT_THAT(as_text(report(), Style::markdown), HasSubstr("answers: No greedy request was answered by both"));
  samples.clear();
  add_pairs([](samples::Sample& b, int i) {
    b.same_text = i % 4 != 0;
    b.common_prefix_bytes = b.same_text ? 400 : 64 * static_cast<std::uint32_t>(i % 3);
  });
  for (auto& sample : samples) sample.greedy = true;
  const auto text = as_text(report(), Style::markdown);
  EXPECT_THAT(text, HasSubstr("Of 1200 greedy requests, fp8 left the primary's text first in 300; divergences per 1000 "
                              "tokens: "));
  EXPECT_THAT(text, HasSubstr("Different within the first 64 bytes: 8.3 % of fp8."));
  EXPECT_THAT(text, HasSubstr("That cannot tell noise from change: start a control."));
  // The same, and a control that differs half as often, and never from the start.
  const auto shadows = samples.size();
  for (std::size_t i = 0; i < shadows; ++i) {
    if (samples[i].role != Role::shadow) continue;
    auto control = samples[i];
    control.id[0] = 3;
    control.config = fp16;
    control.replica = names.of("ctrl0");
    control.shadow = names.of("control");
    control.same_text = i / 2 % 8 != 0;
    control.common_prefix_bytes = control.same_text ? 400 : 64;
    samples.push_back(control);
  }
  const auto said = parsed();
  const auto& sameness = said.at("sameness").as_object();
  EXPECT_EQ(sameness.at("answers"), "differs");
  EXPECT_EQ(sameness.at("control"), true);
  EXPECT_EQ(sameness.at("compared"), 1200);
  // Of 150 that both leave, the candidate's checkpoints are 0, 128 and 64 by turns.
  EXPECT_EQ(sameness.at("first_b"), 200);
  EXPECT_EQ(sameness.at("first_a"), 50);
  EXPECT_EQ(sameness.at("hazard_ratio").to_number<double>(), 4);
  EXPECT_EQ(sameness.at("b").at("from_start"), 100);
  EXPECT_THAT(as_text(report(), Style::markdown),
              AllOf(HasSubstr("fp8 left the primary's text first in 200 and fp16 (control) in 50, 4.00 times as often"),
                    HasSubstr("8.3 % of fp8, 0.0 % of fp16 (control) (look at the template, the tokenizer and the "
                              "model).")));
}

TEST_F(ReportOfATwin, EveryNoteIsASentenceInTheText) {
  add_pairs([](samples::Sample& b, int i) { b.tpot *= i % 2 == 0 ? 1.2F : 0.8F; });
  const auto made = report();
  ASSERT_FALSE(made.notes.empty());
  for (const auto& note : made.notes) {
    std::string text = as_text(made, Style::markdown);
    std::erase(text, '\\');
    EXPECT_THAT(text, HasSubstr(note.sentence));
  }
}

TEST_F(ReportOfATwin, BothSidesAreJudgedFromTheDispatch) {
  // A shadow has no client, and the primary's client waited a second in weir's queue.
  add_pairs([](samples::Sample& b, int i) {
    b.ttft_client = samples::unknown;
    if (i % 4 == 0) b.ttft = 2;
  });
  for (auto& sample : samples) {
    if (sample.role == Role::primary) sample.ttft_client += 1;
  }
  const auto made = report();
  EXPECT_DOUBLE_EQ(*made.sides[0].slo_attainment, 1);
  EXPECT_DOUBLE_EQ(*made.sides[1].slo_attainment, 0.75);
}

TEST_F(ReportOfATwin, SaysHowAlikeTheAnswersAre) {
  add_pairs([](samples::Sample& b, int i) {
    b.same_text = i % 3 == 0 ? 0 : 1;
    b.common_prefix_bytes = 640;
  });
  for (auto& sample : samples) sample.greedy = true;
  EXPECT_THAT(
      as_text(report(), Style::plain),
      HasSubstr("fp8: same text as the primary's, of greedy requests: 600 of 900; the first 640 bytes are the"));
  const auto said = parsed();
  const auto& same_text = said.at("divergence").at("same_text");
  EXPECT_EQ(same_text.at("b").at("same"), 600);
  EXPECT_EQ(same_text.at("a").at("compared"), 0);
}

TEST_F(ReportOfATwin, LeadsWithCharactersIfTokensDiffer) {
  add_pairs([](samples::Sample& b, int) { b.prompt_tokens += b.prompt_tokens / 10; });
  const auto text = as_text(report(), Style::plain);
  EXPECT_LT(text.find("output characters/s"), text.find("TTFT, ms"));
  samples.clear();
  add_pairs([](samples::Sample&, int) {});
  const auto same = as_text(report(), Style::plain);
  EXPECT_GT(same.find("output characters/s"), same.find("TTFT, ms"));
}

TEST_F(ReportOfATwin, WithoutRequestsSaysThatThereIsNothing) {
  const auto said = parsed();
  EXPECT_EQ(said.at("state"), "too_few");
  EXPECT_TRUE(said.at("window").at("from").is_null());
  EXPECT_TRUE(said.at("sides").as_array().empty());
  EXPECT_THAT(as_text(report(), Style::plain), HasSubstr("Too few: "));
}

TEST_F(ReportOfATwin, OfOnePairHasAMomentAndNoMinutes) {
  add_pairs([](samples::Sample&, int) {});
  samples.resize(2);
  options.comparison.warm_up.seconds = 0;
  const auto text = as_text(report(), Style::plain);
  EXPECT_THAT(text, HasSubstr("Too few: 1 pairs at 2026-11-21T00:00:00Z. There is no history"));
}

TEST_F(ReportOfATwin, InBriefHasTheConclusionVerdictsAndNotes) {
  add_pairs([](samples::Sample& b, int) { b.tpot *= 1.1F; });
  options.comparison.to_us = samples.back().received_us + 1;
  const auto brief = as_text(report(), Style::plain, Detail::brief), full = as_text(report(), Style::plain);
  EXPECT_THAT(brief, ::testing::StartsWith("Do not promote fp8: it is slower"));
  for (const auto* const part :
       {"Verdicts: fp8 against fp16", "Faults and answers: fp8 against fp16", "Notes", "gate: worse"}) {
    EXPECT_THAT(brief, HasSubstr(part));
    EXPECT_THAT(full, HasSubstr(part));
  }
  EXPECT_THAT(brief, ::testing::ContainsRegex("\nTPOT +worse +10 ms +11 ms +\\+10"));
  for (const auto* const part : {"What each side did\n", "Why each verdict is what it is\n"}) {
    EXPECT_THAT(brief, Not(HasSubstr(part)));
    EXPECT_THAT(full, HasSubstr(part));
  }
  EXPECT_THAT(brief, HasSubstr("More with --details: Why each verdict is what it is; What each side did; Latency"));
  EXPECT_THAT(full, Not(HasSubstr("--details")));
  EXPECT_LT(brief.size(), full.size() / 2);
}

/// Names, sides and options of any kind: no line of a report is longer than 100 columns, with details or without.
TEST_F(ReportOfATwin, NoLineOfAnyReportIsLongerThanAHundredColumns) {
  std::mt19937 random(6);
  for (int round = 0; round < 12; ++round) {
    samples.clear();
    const auto any_name = [&] {
      std::string name(1 + random() % (round % 3 == 0 ? 200 : 30), static_cast<char>('a' + random() % 26));
      for (char& letter : name) {
        if (random() % 20 == 0) letter = ' ';
      }
      return name + std::to_string(random());
    };
    fp16 = names.of(any_name());
    fp8 = names.of(any_name());
    options.comparison.a.name = fp16;
    options.comparison.b.name = fp8;
    options.all_sides = round % 2 == 0;
    add_pairs([&](samples::Sample& b, int i) {
      b.tpot *= 1 + 0.1F * static_cast<float>(round);
      if (i % 50 == round) b.outcome = Outcome::timeout, b.served = false;
    });
    for (unsigned more = random() % 5; more > 0; --more) {
      auto other = stream_at(1000 + more, names.of(any_name()));
      other.config = names.of(any_name());
      samples.push_back(other);
    }
    const auto made = report();
    const auto all = together({made, made});
    for (const auto detail : {Detail::brief, Detail::full}) {
      for (const auto& text : {as_text(made, Style::plain, detail), as_text(all, Style::plain, detail)}) {
        for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
          ASSERT_LE(end - begin, 100U) << text.substr(begin, end - begin);
      }
    }
  }
}

TEST_F(ReportOfATwin, OnlyTheComparedSidesAreShownUnlessAllAreAskedFor) {
  add_pairs([](samples::Sample&, int) {});
  auto other = stream_at(1000, names.of("elsewhere"));
  other.config = names.of("elsewhere");
  samples.push_back(other);
  EXPECT_THAT(as_text(report(), Style::plain), Not(HasSubstr("elsewhere")));
  const auto said = parsed();
  ASSERT_EQ(said.at("sides").as_array().size(), 3U) << "JSON has all";
  EXPECT_EQ(said.at("sides").at(1).at("compared"), true);
  EXPECT_EQ(said.at("sides").at(2).at("compared"), false);
  options.all_sides = true;
  EXPECT_THAT(as_text(report(), Style::plain), HasSubstr("elsewhere"));
}

TEST_F(ReportOfATwin, ASideHasItsNameAndAShadowsWhereTwoHaveOne) {
  add_pairs([](samples::Sample&, int) {});
  EXPECT_EQ(report().sides[1].label, "fp8");
  const auto pairs = samples.size();
  for (std::size_t i = 1; i < pairs; i += 2) {
    auto control = samples[i];
    control.id[0] = 3;
    control.config = fp16;
    control.replica = names.of("ctrl0");
    control.shadow = names.of("steady");
    samples.push_back(control);
  }
  const auto made = report();
  ASSERT_EQ(made.sides.size(), 3U);
  EXPECT_EQ(made.comparison.a, "fp16 (steady)");
  std::vector<std::string> labels;
  std::vector<bool> compared;
  for (const auto& side : made.sides) {
    labels.push_back(side.label);
    compared.push_back(side.compared);
  }
  EXPECT_THAT(labels, ::testing::ElementsAre("fp16", "fp16 (steady)", "fp8"));
  EXPECT_THAT(compared, ::testing::ElementsAre(false, true, true)) << "the primary is not on either side";
  options.by = options.comparison.a.by = options.comparison.b.by = sides::By::replica;
  options.comparison.a.name = gpu0;
  options.comparison.b.name = cand0;
  for (const auto& side : report().sides) EXPECT_EQ(side.label, side.name);
}

TEST_F(ReportOfATwin, CandidatesAreJudgedTogether) {
  add_pairs([](samples::Sample& b, int) { b.tpot *= 1.1F; });
  options.comparison.to_us = samples.back().received_us + 1;
  const auto one = report();
  for (const std::size_t number : {1U, 2U, 7U}) {
    const auto all = together(std::vector<Report>(number, one));
    ASSERT_EQ(all.rows.size(), number);
    // Holm's method over all figures of all candidates, by its definition; and none says more than it says alone.
    std::vector<double> p;
    for (const auto& verdict : one.comparison.verdicts) p.insert(p.end(), number, statistics::p_value(verdict.effect));
    const auto rejected = statistics::holm(p, 0.05);
    for (const auto& row : all.rows) {
      ASSERT_EQ(row.comparison.verdicts.size() * number, p.size());
      for (std::size_t i = 0; i < row.comparison.verdicts.size(); ++i) {
        const auto alone = one.comparison.verdicts[i].finding, among = row.comparison.verdicts[i].finding;
        EXPECT_EQ(among == statistics::Finding::worse, alone == statistics::Finding::worse && rejected[i * number]);
      }
      EXPECT_EQ(row.gate.word, comparison::Gate::worse);
    }
    const auto text = as_text(all, Style::plain, Detail::brief);
    EXPECT_THAT(text, HasSubstr(std::to_string(number) + " candidates against fp16"));
    const auto said = json::parse(as_json(all));
    EXPECT_EQ(said.at("candidates").as_array().size(), number);
    EXPECT_EQ(said.at("candidates").at(0).at("report"), json::parse(as_json(one)));
    EXPECT_EQ(said.at("candidates").at(0).at("gate").at("word"), "worse");
  }
}

/// A figure that holds by itself need not hold among many, and faults need evidence for each candidate.
TEST_F(ReportOfATwin, AmongManyCandidatesLittleIsSure) {
  add_pairs([](samples::Sample& b, int i) {
    if (i % 110 == 0) {
      b.outcome = Outcome::timeout;
      b.served = false;
    }
  });
  options.comparison.slo.reset();
  const auto one = report();
  EXPECT_EQ(one.comparison.faults[0].finding, statistics::Finding::worse) << "eleven failures against none";
  EXPECT_EQ(together({one}).rows[0].gate.word, comparison::Gate::worse);
  const auto many = together({one, one, one});
  EXPECT_EQ(many.rows[0].gate.word, comparison::Gate::unknown);
  EXPECT_THAT(as_text(many, Style::plain, Detail::brief), Not(HasSubstr("Do not promote")));
}

TEST_F(ReportOfATwin, SidesThatAreNotComparedComeLast) {
  add_pairs([](samples::Sample&, int) {});
  auto other = stream_at(1000, names.of("aaa"));
  other.config = names.of("aaa");
  samples.push_back(other);
  const auto made = report();
  ASSERT_EQ(made.sides.size(), 3U);
  EXPECT_EQ(made.sides[0].name, "fp16");
  EXPECT_EQ(made.sides[1].name, "fp8");
  EXPECT_EQ(made.sides[2].name, "aaa");
}

}  // namespace
}  // namespace weir::metrics::compare::report
