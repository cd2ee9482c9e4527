"""The arithmetic world in German."""

from footfall.worlds._multilingual_words import Wordings

__all__ = ["WORDS"]

WORDS = Wordings(
    names={},
    items={
        "stickers": "Sticker", "marbles": "Murmeln", "coins": "Münzen", "shells": "Muscheln", "beads": "Perlen",
        "cards": "Karten", "stamps": "Briefmarken", "pencils": "Bleistifte", "apples": "Äpfel", "buttons": "Knöpfe",
        "books": "Bücher", "stones": "Steine", "nuts": "Nüsse", "keys": "Schlüssel", "balls": "Bälle", "cups": "Tassen",
    },
    she=("sie", "ihr"),
    he=("er", "ihm"),
    plain={
        "+": ("{Who} kauft {n} dazu.", "{Who} findet {n} weitere {item}.", "Ein Freund gibt {whom} {n} {item}.",
              "Dann kommen {n} dazu.", "{Who} gewinnt {n} {item} bei einem Spiel."),
        "-": ("{Who} verliert {n}.", "{Who} verschenkt {n} {item}.", "{Who} verkauft {n} davon.",
              "Dann werden {n} weggenommen.", "{Who} lässt {n} {item} in der Schule."),
        "*": ("Dann wird die Anzahl der {item} mit {n} multipliziert.", "Dann wird jedes Stück gegen {n} {item} getauscht.",
              "Nach einem Tausch hat {who} {n} Mal so viele.", "Bald hat {who} {n} Mal so viele."),
        "/": ("Dann wird die Anzahl der {item} durch {n} geteilt.",
              "{Who} macht {n} gleiche Haufen und behält nur einen Haufen.",
              "{Who} verteilt sie gleichmäßig auf {n} Beutel und behält einen Beutel.",
              "{Who} behält von je {n} nur ein Stück."),
    },
    tricky={
        "+": ("Das sind {n} weniger, als {who} {later} hat.", "Das liegt um {n} unter der Zahl, die {who} {later} hat.",
              "{Who} bekommt {n} {item} zurück, die {who} vor langer Zeit verschenkt hatte."),
        "-": ("Das sind {n} mehr, als {who} {later} hat.", "Das liegt um {n} über der Zahl, die {who} {later} hat.",
              "{Who} gibt {n} {item} zurück, die {who} vor langer Zeit bekommen hatte."),
        "*": ("Dann wächst die Anzahl der {item} um den Faktor {n}.", "Die {item} nehmen um den Faktor {n} zu."),
        "/": ("Das sind {n} Mal so viele, wie {who} {later} hat.", "Das ist {n} Mal die Zahl, die {who} {later} hat."),
    },
    later=("am nächsten Tag", "eine Woche später", "eine Stunde später", "einen Monat später"),
    openings=("{name} hat {n} {item}.", "Anfangs besitzt {name} {n} {item}.", "Zuerst hat {name} {n} {item}."),
    questions=("Wie viele {item} hat {name} jetzt?", "Wie viele {item} hat {name} am Ende?",
               "Wie groß ist die Anzahl der {item} jetzt?"),
    first=("Zuerst %s.", "Wir beginnen mit %s.", "Am Anfang %s.", "Zu Beginn %s {item}."),
    any=("Dann %s.", "Nun %s.", "{Who} hat dann %s {item}.", "Also hat {name} %s {item}.", "Das macht %s.",
         "Wir erhalten %s {item}."),
    by_symbol={
        "+": ("Addieren ergibt %s.", "Zusammen sind das %s {item}."),
        "-": ("Abziehen ergibt %s.", "Übrig sind %s {item}."),
        "*": ("Multiplizieren ergibt %s.", "Die neue Anzahl ist %s {item}."),
        "/": ("Teilen ergibt %s.", "Ein Teil ist %s {item}."),
    },
    again=("Moment, es muss %s heißen.", "Nein, das war falsch: %s.", "Ich rechne noch einmal: %s.", "Moment, %s {item}."),
    answer="Die Antwort ist \\boxed{%s}.",
)  # fmt: skip
