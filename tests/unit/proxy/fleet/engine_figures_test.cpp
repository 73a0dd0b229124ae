// The figures of an engine stay until it tells otherwise, and another engine in its place begins anew.
#include "proxy/fleet/replica_facts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::proxy::fleet {
namespace {

using ::testing::SizeIs;

ReplicaFacts vllm() {
  ReplicaFacts facts;
  facts.engine = Engine::vllm;
  facts.version = "0.10.2";
  facts.models = {"m", "lora"};
  facts.kv_tokens = 1000;
  facts.max_context = 4096;
  return facts;
}

TEST(EngineFigures, FactsGoIntoTheFigures) {
  EngineFigures figures;
  take_facts(vllm(), figures);
  EXPECT_EQ(text_of(figures), "vLLM 0.10.2, model 'm', KV cache of 1000 tokens, context of 4096");
}

TEST(EngineFigures, WhatAnAnswerLeavesOpenStays) {
  EngineFigures figures;
  take_facts(vllm(), figures);
  take_facts(ReplicaFacts{}, figures);
  ReplicaFacts larger;
  larger.engine = Engine::vllm;
  larger.kv_tokens = 2000;
  take_facts(larger, figures);
  EXPECT_EQ(text_of(figures), "vLLM 0.10.2, model 'm', KV cache of 2000 tokens, context of 4096");
}

TEST(EngineFigures, AnotherEngineInItsPlaceKeepsNothingOfTheFirst) {
  EngineFigures figures;
  take_facts(vllm(), figures);
  ReplicaFacts other;
  other.engine = Engine::llama_cpp;
  other.version = "b1";
  take_facts(other, figures);
  EXPECT_EQ(text_of(figures), "llama.cpp b1");
}

TEST(EngineFigures, TheSameEngineWithAnotherModelOrReleaseKeepsNoLimitsOfTheFirst) {
  for (const bool model : {true, false}) {
    EngineFigures figures;
    take_facts(vllm(), figures);
    ReplicaFacts other;
    other.engine = Engine::vllm;
    (model ? other.models.emplace_back() : other.version) = "another";
    take_facts(other, figures);
    EXPECT_FALSE(figures.kv_tokens);
    EXPECT_FALSE(figures.max_context);
  }
}

TEST(EngineFigures, AnEngineSleepsForAsLongAsThePageThatSaysSoIsGood) {
  const metrics::Moment now = metrics::Moment() + std::chrono::hours(1);
  EngineFigures figures;
  take_facts(vllm(), figures);
  EXPECT_FALSE(limits_of(figures, now).asleep) << "there is no page";
  figures.load.emplace().good_until = now;
  EXPECT_FALSE(limits_of(figures, now).asleep);
  figures.load->asleep = true;
  EXPECT_TRUE(limits_of(figures, now).asleep);
  EXPECT_FALSE(limits_of(figures, now + std::chrono::nanoseconds(1)).asleep) << "no later page came";
  EXPECT_EQ(limits_of(figures, now).kv_tokens, 1000u);
  EXPECT_EQ(limits_of(figures, now).max_context, 4096u);
}

TEST(EngineFigures, TextsOfAnEngineAreBoundedAndPrintable) {
  auto facts = vllm();
  facts.version = std::string(1000, '9');
  facts.models = {"a\nb\"\x1b" + std::string(1000, 'x')};
  EngineFigures figures;
  take_facts(facts, figures);
  EXPECT_THAT(figures.version, SizeIs(64));
  EXPECT_THAT(figures.model, SizeIs(128));
  EXPECT_EQ(figures.model.substr(0, 5), "a?b\"?");
}

TEST(EngineFigures, AnEngineIsAskedOnlyForPagesThatItHas) {
  const auto asked = [](Engine engine, Page page) {
    const auto pages = identifying_pages(engine);
    return std::ranges::find(pages, page) != pages.end();
  };
  EXPECT_TRUE(asked(Engine::vllm, Page::version));
  EXPECT_FALSE(asked(Engine::vllm, Page::server_info)) << "it would be 404 in its log";
  EXPECT_TRUE(asked(Engine::sglang, Page::server_info));
  EXPECT_TRUE(asked(Engine::tgi, Page::info));
  EXPECT_TRUE(asked(Engine::llama_cpp, Page::props));
  // Metrics and models are read more often, and not for this.
  for (std::size_t page = 0; page < page_paths.size(); ++page)
    EXPECT_EQ(asked(Engine::unknown, static_cast<Page>(page)),
              static_cast<Page>(page) != Page::metrics && static_cast<Page>(page) != Page::models);
}

}  // namespace
}  // namespace weir::proxy::fleet
