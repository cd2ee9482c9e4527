"""The arithmetic world in Swahili. Verbs carry the person, so she and he need no word of their own."""

from footfall.worlds._multilingual_words import Wordings

__all__ = ["WORDS"]

WORDS = Wordings(
    names={},
    items={
        "stickers": "stika", "marbles": "gololi", "coins": "sarafu", "shells": "kombe", "beads": "shanga",
        "cards": "kadi", "stamps": "stempu", "pencils": "penseli", "apples": "tufaha", "buttons": "vifungo",
        "books": "vitabu", "stones": "mawe", "nuts": "karanga", "keys": "funguo", "balls": "mipira", "cups": "vikombe",
    },
    she=("yeye", "yeye"),
    he=("yeye", "yeye"),
    plain={
        "+": ("Ananunua {n} zaidi.", "Anapata {item} {n} zaidi.", "Rafiki anampa {item} {n}.", "Kisha {n} zaidi zinaongezwa.",
              "Anashinda {item} {n} katika mchezo."),
        "-": ("Anapoteza {n}.", "Anagawa {item} {n}.", "Anauza {n} kati ya hizo.", "Kisha {n} zinaondolewa.",
              "Anaacha {item} {n} shuleni."),
        "*": ("Kisha idadi ya {item} inazidishwa kwa {n}.", "Kisha kila moja inabadilishwa kwa {item} {n}.",
              "Baada ya kubadilishana ana mara {n} ya idadi hiyo.", "Baadaye ana mara {n} ya idadi hiyo."),
        "/": ("Kisha idadi ya {item} inagawanywa kwa {n}.", "Anatengeneza mafungu sawa {n} na kubaki na fungu moja tu.",
              "Anagawa zote kwa usawa katika mifuko {n} na kubaki na mfuko mmoja.",
              "Katika kila {item} {n} anabaki na moja tu."),
    },
    tricky={
        "+": ("Hiyo ni pungufu kwa {n} kuliko atakazokuwa nazo {later}.",
              "Hiyo ni chini kwa {n} ya idadi atakayokuwa nayo {later}.",
              "Anarudishiwa {item} {n} ambazo alikuwa amegawa zamani."),
        "-": ("Hiyo ni zaidi kwa {n} kuliko atakazokuwa nazo {later}.",
              "Hiyo ni juu kwa {n} ya idadi atakayokuwa nayo {later}.",
              "Anarudisha {item} {n} ambazo alikuwa amepewa zamani."),
        "*": ("Kisha idadi ya {item} inakua kwa kizidisho cha {n}.", "Idadi ya {item} inaongezeka kwa kizidisho cha {n}."),
        "/": ("Hiyo ni mara {n} ya atakazokuwa nazo {later}.", "Hiyo ni mara {n} ya idadi atakayokuwa nayo {later}."),
    },
    later=("siku inayofuata", "wiki moja baadaye", "saa moja baadaye", "mwezi mmoja baadaye"),
    openings=("{name} ana {item} {n}.", "{name} anaanza na {item} {n}.", "Mwanzoni {name} ana {item} {n}."),
    questions=("{name} ana {item} ngapi sasa?", "{name} ana {item} ngapi mwishoni?", "Idadi ya {item} ni ngapi sasa?"),
    first=("Kwanza, %s.", "Tunaanza na %s.", "Mwanzoni, %s.", "Kuanza, {item} %s."),
    any=("Kisha %s.", "Sasa %s.", "Kisha ana {item} %s.", "Kwa hiyo {name} ana {item} %s.", "Hiyo inafanya %s.",
         "Tunapata {item} %s."),
    by_symbol={
        "+": ("Kujumlisha kunatoa %s.", "Kwa pamoja ni {item} %s."),
        "-": ("Kutoa kunaleta %s.", "Kinachobaki ni {item} %s."),
        "*": ("Kuzidisha kunatoa %s.", "Idadi mpya ni {item} %s."),
        "/": ("Kugawanya kunatoa %s.", "Fungu moja ni {item} %s."),
    },
    again=("Subiri, inapaswa kuwa %s.", "Hapana, hiyo ilikuwa makosa: %s.", "Nifanye tena: %s.", "Subiri, {item} %s."),
    answer="Jibu ni \\boxed{%s}.",
)  # fmt: skip
