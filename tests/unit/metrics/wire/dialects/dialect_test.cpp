#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "metrics/wire/dialects/dialect.hpp"

namespace weir::metrics::wire {
namespace {

TEST(Dialects, StandInTheOrderOfTheirApis) {
  for (std::size_t i = 0; i < dialects::all.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(dialects::all[i]->api), i) << api_names[i];
    EXPECT_EQ(&dialect_of(static_cast<Api>(i)), dialects::all[i]);
  }
}

TEST(Dialects, KnowTheRequestsThatEmptyACache) {
  for (const auto* path : {"/reset_prefix_cache", "/sleep", "/wake_up", "/flush_cache", "/update_weights_from_disk"}) {
    EXPECT_TRUE(empties_cache("POST", path)) << path;
    EXPECT_TRUE(empties_cache("GET", path)) << path;
    EXPECT_FALSE(empties_cache("OPTIONS", path)) << path;
    EXPECT_EQ(api_of("POST", path), Api::other) << path;
  }
  for (const auto* path : {"", "/", "/v1/chat/completions", "/flush_cache/", "/x/flush_cache", "/is_sleeping"})
    EXPECT_FALSE(empties_cache("POST", path)) << path;
}

TEST(Dialects, ShareARouteOnlyWhereTheBodyTellsThemApart) {
  std::map<std::string_view, const Dialect*> first_of;
  for (const Dialect* dialect : dialects::all) {
    for (const Route& route : dialect->routes) {
      const auto [first, alone] = first_of.emplace(route.path, dialect);
      EXPECT_EQ(api_of("POST", route.path), first->second->api) << route.path;
      EXPECT_TRUE(alone || first->second->told_by_sources != nullptr) << route.path;
    }
  }
}

/// Whole answers are told by shape alone, so the tables of all dialects are one.
TEST(Dialects, CallNoTwoThingsByOneNameInAnAnswer) {
  std::map<std::pair<AnswerPlace, std::string_view>, const AnswerMember*> known;
  for (const Dialect* dialect : dialects::all) {
    std::set<AnswerPlace> reached{AnswerPlace::root, AnswerPlace::choice, AnswerPlace::item, AnswerPlace::part};
    for (const AnswerMember& member : dialect->answer_members) {
      const auto [other, first] = known.emplace(std::pair(member.in, member.key), &member);
      if (!first) {
        EXPECT_EQ(other->second->place, member.place) << member.key;
        EXPECT_EQ(other->second->count, member.count) << member.key;
      }
      reached.insert(member.place);
    }
    for (const AnswerMember& member : dialect->answer_members) EXPECT_TRUE(reached.contains(member.in)) << member.key;
    for (const AnswerFigures& figures : dialect->answer_figures) {
      EXPECT_TRUE(reached.contains(figures.in)) << name_of(dialect->api);
      for (const FigureMember& figure : figures.members)
        EXPECT_FALSE(known.contains({figures.in, figure.key})) << figure.key;
    }
  }
}

TEST(Dialects, NameEachMemberOfARequestOnce) {
  for (const Dialect* dialect : dialects::all) {
    std::set<std::pair<RequestPlace, std::string_view>> known;
    for (const RequestMember& member : dialect->request_members)
      EXPECT_TRUE(known.emplace(member.in, member.key).second) << name_of(dialect->api) << ' ' << member.key;
  }
}

TEST(Dialects, TellTheEndOfTheirStreams) {
  using testing::UnorderedElementsAre;
  std::vector<Api> without_marker, without_done;
  for (const Dialect* dialect : dialects::all) {
    if (dialect->end != StreamEnd::marker) without_marker.push_back(dialect->api);
    EventFacts facts;
    read_event(dialect->api, "[DONE]", facts);
    if (!facts.marker) without_done.push_back(dialect->api);
  }
  EXPECT_THAT(without_marker,
              UnorderedElementsAre(Api::kobold_generate, Api::openai_embeddings, Api::rerank, Api::score, Api::other));
  EXPECT_THAT(without_done, UnorderedElementsAre(Api::tgi_generate));
}

}  // namespace
}  // namespace weir::metrics::wire
