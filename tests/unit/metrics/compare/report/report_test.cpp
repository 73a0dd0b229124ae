#include "metrics/compare/report/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <boost/json.hpp>
#include <cstdio>
#include <random>
#include <regex>
#include <vector>

#include "tests/golden.hpp"
#include "tests/unit/metrics/compare/described_samples.hpp"

namespace weir::metrics::compare::report {
namespace {

namespace json = boost::json;
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

/// Returns JSON with four digits of each number.
std::string rounded(const std::string& json) {
  static const std::regex long_number(R"(-?\d+\.\d{4,}(E-?\d+)?)");
  std::string said;
  auto from = json.begin();
  for (std::sregex_iterator it(json.begin(), json.end(), long_number), end; it != end; ++it) {
    std::array<char, 32> digits;
    std::snprintf(digits.data(), digits.size(), "%.4g", std::stod(it->str()));
    said.append(from, (*it)[0].first).append(digits.data());
    from = (*it)[0].second;
  }
  return said.append(from, json.end());
}

/// A candidate that is slower, fails at times and answers something else; and a control that differs half as often.
TEST_F(ReportOfATwin, ReadsAsItsGoldenFiles) {
  add_pairs([](samples::Sample& b, int i) {
    b.tpot *= 1.1F;
    if (i % 100 == 0) b.outcome = Outcome::timeout, b.served = false;
    if (i % 300 == 1) b.outcome = Outcome::ok_empty;
    b.same_text = i % 4 != 0;
    b.common_prefix_bytes = b.same_text ? 400 : 64 * static_cast<std::uint32_t>(i % 3);
  });
  for (auto& sample : samples) sample.greedy = true;
  options.comparison.to_us = samples.back().received_us + 1;
  tests::expect_golden("compare_without_control.md", as_text(report(), Style::markdown));
  const auto shadows = samples.size();
  for (std::size_t i = 0; i < shadows; ++i) {
    if (samples[i].role != Role::shadow) continue;
    auto control = samples[i];
    control.id[0] = 3;
    control.config = fp16;
    control.replica = names.of("ctrl0");
    control.shadow = names.of("control");
    control.outcome = Outcome::ok;
    control.served = true;
    control.same_text = i / 2 % 8 != 0;
    control.common_prefix_bytes = control.same_text ? 400 : 64;
    samples.push_back(control);
  }
  const auto made = report();
  tests::expect_golden("compare.txt", as_text(made, Style::plain));
  tests::expect_golden("compare_brief.txt", as_text(made, Style::plain, Detail::brief));
  tests::expect_golden("compare.md", as_text(made, Style::markdown));
  tests::expect_golden("compare.json", tests::legible(rounded(as_json(made))));
}

TEST_F(ReportOfATwin, OfTooFewRequestsReadsAsItsGoldenFile) {
  const auto without_requests = as_text(report(), Style::plain);
  EXPECT_EQ(parsed().at("state"), "too_few");
  add_pairs([](samples::Sample&, int) {});
  samples.resize(2);
  options.comparison.warm_up.seconds = 0;
  tests::expect_golden("compare_too_few.txt", without_requests + "\n====\n\n" + as_text(report(), Style::plain));
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

TEST_F(ReportOfATwin, LeadsWithCharactersIfTokensDiffer) {
  add_pairs([](samples::Sample& b, int) { b.prompt_tokens += b.prompt_tokens / 10; });
  const auto text = as_text(report(), Style::plain);
  EXPECT_LT(text.find("output characters/s"), text.find("TTFT, ms"));
  samples.clear();
  add_pairs([](samples::Sample&, int) {});
  const auto same = as_text(report(), Style::plain);
  EXPECT_GT(same.find("output characters/s"), same.find("TTFT, ms"));
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
